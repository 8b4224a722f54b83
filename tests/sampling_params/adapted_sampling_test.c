/* sampling_codec: the sampling of a request with an adapter survives the wire where earlier versions find none, whatever it asks for, and
 * is alone in its place. */
#include "proto/kvferry/internal/v1/ruled_sampling.pb-c.h"
#include "sampling_params/sampling_codec.h"

#include <criterion/criterion.h>
#include <string.h>

#define VOCABULARY 100

enum { PLAIN, SCORED, NEWEST, SEARCH, N_KINDS };

/* One of each place. */
static struct sampling_params params_of(int kind)
{
    struct sampling_params params = SAMPLING_GREEDY;
    params.max_tokens = 7;
    params.scores_prompt = kind == SCORED;
    if (kind == NEWEST)
        params.no_repeat_ngram_size = 3;
    if (kind == SEARCH) {
        params.beams.n_beams = 4;
        params.beams.n_best = 2;
    }
    return params;
}

static void make(int kind, struct sampling_message *message)
{
    const struct sampling_params params = params_of(kind);
    sampling_message_make(&params, message);
}

Test(adapted_sampling, survives_where_no_earlier_version_finds_sampling)
{
    for (int kind = 0; kind < N_KINDS; kind++) {
        struct sampling_message message;
        struct sampling_params read, asked = params_of(kind);
        struct token_rules rules;
        struct error error = {""};
        make(kind, &message);
        sampling_message_adapt(&message);
        const Kvferry__Internal__V1__RuledSampling *ruled = message.ruled_sampling;
        cr_assert(ruled && ruled->adapted_sampling && !message.sampling, "kind %d", kind);
        cr_assert(!ruled->sampling && !ruled->newer_sampling && !ruled->newest_sampling &&
                      !ruled->beam_sampling,
                  "kind %d", kind);
        cr_assert_eq(
            sampling_message_decode(message.sampling, ruled, VOCABULARY, &read, &rules, &error),
            STATUS_OK, "kind %d: %s", kind, error.text);
        cr_expect_eq(read.max_tokens, 7);
        cr_expect_eq(read.scores_prompt, asked.scores_prompt);
        cr_expect_eq(read.no_repeat_ngram_size, asked.no_repeat_ngram_size);
        cr_expect_eq(beam_params_search(&read.beams), kind == SEARCH);
        cr_expect(kind != SEARCH || (read.beams.n_beams == 4 && read.beams.n_best == 2));
    }
}

static void refuse(const Kvferry__V1__SamplingParams *sampling,
                   const Kvferry__Internal__V1__RuledSampling *ruled, const char *word)
{
    struct sampling_params read;
    struct token_rules rules;
    struct error error = {""};
    cr_expect_eq(sampling_message_decode(sampling, ruled, VOCABULARY, &read, &rules, &error),
                 STATUS_INVALID_ARGUMENT, "%s", word);
    cr_expect(strstr(error.text, word), "no \"%s\" in \"%s\"", word, error.text);
}

Test(adapted_sampling, is_alone_in_its_place)
{
    static const char ALONE[] = "ruled_sampling.adapted_sampling takes the place of the other four";
    struct sampling_message messages[N_KINDS], adapted;
    for (int kind = 0; kind < N_KINDS; kind++)
        make(kind, &messages[kind]);
    make(PLAIN, &adapted);
    sampling_message_adapt(&adapted);
    adapted.ruled.sampling = messages[PLAIN].sampling;
    refuse(NULL, &adapted.ruled, ALONE);
    adapted.ruled.sampling = NULL;
    adapted.ruled.newer_sampling = messages[SCORED].ruled.newer_sampling;
    refuse(NULL, &adapted.ruled, ALONE);
    adapted.ruled.newer_sampling = NULL;
    adapted.ruled.newest_sampling = messages[NEWEST].ruled.newest_sampling;
    refuse(NULL, &adapted.ruled, ALONE);
    adapted.ruled.newest_sampling = NULL;
    adapted.ruled.beam_sampling = messages[SEARCH].ruled.beam_sampling;
    refuse(NULL, &adapted.ruled, ALONE);
    adapted.ruled.beam_sampling = NULL;
    refuse(messages[PLAIN].sampling, &adapted.ruled, "sampling and ruled_sampling are both there");
    adapted.params.beam_width = 17;
    refuse(NULL, &adapted.ruled, "beam_width is 17");
    adapted.params.beam_width = 0;
    adapted.params.temperature = -1;
    refuse(NULL, &adapted.ruled, "temperature is -1");
}
