/* beam_params: a beam search survives the wire out of reach of an older worker, and each thing that does not go with one is refused by
 * its name. */
#include "sampling_params/beam_params.h"
#include "sampling_params/sampling_codec.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#define VOCABULARY 10u

static struct sampling_params search_of(uint32_t n_beams, uint32_t n_best)
{
    struct sampling_params params = SAMPLING_GREEDY;
    params.beams = (struct beam_params){.n_beams = n_beams, .n_best = n_best, .length_penalty = 1};
    return params;
}

static enum status cross(const struct sampling_params *params, struct sampling_params *again_out,
                         struct error *error)
{
    static Kvferry__Internal__V1__RuledSampling *unpacked;
    static struct token_rules rules;
    struct sampling_message message;
    uint8_t bytes[256];
    sampling_message_make(params, &message);
    cr_assert_null(message.sampling, "an older worker is to find none");
    size_t n = kvferry__internal__v1__ruled_sampling__get_packed_size(message.ruled_sampling);
    cr_assert_leq(n, sizeof bytes);
    kvferry__internal__v1__ruled_sampling__pack(message.ruled_sampling, bytes);
    if (unpacked)
        kvferry__internal__v1__ruled_sampling__free_unpacked(unpacked, NULL);
    unpacked = kvferry__internal__v1__ruled_sampling__unpack(NULL, n, bytes);
    cr_assert(unpacked->beam_sampling && !unpacked->sampling && !unpacked->newer_sampling &&
              !unpacked->newest_sampling);
    return sampling_message_decode(NULL, unpacked, VOCABULARY, again_out, &rules, error);
}

Test(beam_params, survive_the_wire)
{
    static const enum early_stopping STOPS[] = {EARLY_STOPPING_FALSE, EARLY_STOPPING_TRUE,
                                                EARLY_STOPPING_NEVER};
    static const float PENALTIES[] = {-10, 0, 10};
    for (int i = 0; i < 3; i++) {
        struct sampling_params params = search_of(2 + 7 * (uint32_t)i, 1 + (uint32_t)i), again;
        struct error error = {0};
        params.beams.early_stopping = STOPS[i];
        params.beams.length_penalty = PENALTIES[i];
        cr_assert_eq(cross(&params, &again, &error), STATUS_OK, "%s", error.text);
        cr_expect_eq(again.beams.n_beams, params.beams.n_beams);
        cr_expect_eq(again.beams.n_best, params.beams.n_best);
        cr_expect_eq(again.beams.length_penalty, PENALTIES[i]);
        cr_expect_eq(again.beams.early_stopping, STOPS[i]);
        cr_expect_str_eq(sampling_first_rule(&again), "sampling.beam_width");
    }
}

/* It is asked of no worker that would do the rest of the request without it. */
Test(beam_params, have_their_place_beside_newer_fields_and_rules)
{
    static const uint32_t IDS[] = {1, 2};
    const struct token_rules rules = {.n_allowed = 2, .allowed_ids = IDS};
    struct sampling_params params = search_of(4, 2), again;
    struct error error = {0};
    params.typical_p = 0.5f;
    params.no_repeat_ngram_size = 3;
    params.min_tokens = 2;
    params.rules = &rules;
    cr_assert_eq(cross(&params, &again, &error), STATUS_OK, "%s", error.text);
    cr_expect_eq(again.beams.n_beams, 4);
    cr_expect_eq(again.typical_p, 0.5f);
    cr_expect_eq(again.no_repeat_ngram_size, 3);
    cr_expect_eq(again.min_tokens, 2);
    cr_assert_eq(again.rules->n_allowed, 2);
}

Test(beam_params, one_beam_is_no_search)
{
    for (uint32_t n = 0; n <= 1; n++) {
        struct sampling_params params = search_of(n, 99);
        struct sampling_message message;
        struct sampling_fault fault;
        params.temperature = 1;
        params.beams.length_penalty = NAN;
        params.beams.early_stopping = EARLY_STOPPING_UNKNOWN;
        cr_expect_not(beam_params_search(&params.beams));
        cr_expect_eq(beam_params_n_rows(&params.beams), 1);
        cr_expect_not(sampling_find_fault(&params, VOCABULARY, &fault), "the rest is not read");
        sampling_message_make(&params, &message);
        cr_expect(message.sampling && message.sampling->beam_width == 0);
        cr_expect_null(sampling_first_rule(&params));
    }
}

Test(beam_params, absent_fields_have_the_defaults_of_transformers)
{
    Kvferry__V1__SamplingParams message = KVFERRY__V1__SAMPLING_PARAMS__INIT;
    struct sampling_params params = SAMPLING_GREEDY;
    message.beam_width = 3;
    sampling_decode_given(&message, &params);
    cr_expect_eq(params.beams.n_beams, 3);
    cr_expect_eq(params.beams.n_best, 1);
    cr_expect_eq(params.beams.length_penalty, 1);
    cr_expect_eq(params.beams.early_stopping, EARLY_STOPPING_FALSE);
    message.early_stopping = (Kvferry__V1__EarlyStopping)4;
    sampling_decode_given(&message, &params);
    cr_expect_eq(params.beams.early_stopping, EARLY_STOPPING_UNKNOWN);
    message.early_stopping = (Kvferry__V1__EarlyStopping)-1;
    sampling_decode_given(&message, &params);
    cr_expect_eq(params.beams.early_stopping, EARLY_STOPPING_UNKNOWN);
}

Test(beam_params, a_step_ranks_as_many_tokens_as_may_end_and_run_on)
{
    const struct beam_params beams = {.n_beams = 4};
    cr_expect_eq(beam_params_rank_count(&beams, 0), 8);
    cr_expect_eq(beam_params_rank_count(&beams, 1), 8);
    cr_expect_eq(beam_params_rank_count(&beams, 3), 16);
    cr_expect_eq(beam_params_n_rows(&beams), 4);
}

/* ---- what is refused ---- */

#define REFUSES(sentence, ...)                                                                     \
    do {                                                                                           \
        struct sampling_params params = search_of(4, 2);                                           \
        struct error error = {0};                                                                  \
        __VA_ARGS__;                                                                               \
        cr_expect_eq(sampling_check(&params, VOCABULARY, &error), STATUS_INVALID_ARGUMENT);        \
        cr_expect_str_eq(error.text, sentence);                                                    \
    } while (0)

Test(beam_params, what_does_not_go_with_a_search_is_refused_by_name)
{
    static const char *const TEXTS[] = {"a+"};
    const struct token_rules rules = {
        .constraint = {.kind = REPLY_REGEX, .n_texts = 1, .texts = TEXTS}};
    REFUSES("sampling.beam_width is 17; it must be 0 .. 16", params.beams.n_beams = 17);
    REFUSES("sampling.beam_width is 4294967295; it must be 0 .. 16",
            params.beams.n_beams = UINT32_MAX);
    REFUSES("sampling.n is 5; it must be 1 .. beam_width", params.beams.n_best = 5);
    REFUSES("sampling.n is 0; it must be 1 .. beam_width", params.beams.n_best = 0);
    REFUSES("sampling.length_penalty is 10.5; it must be -10 .. 10",
            params.beams.length_penalty = 10.5f);
    REFUSES("sampling.length_penalty is -11; it must be -10 .. 10",
            params.beams.length_penalty = -11);
    REFUSES("sampling.length_penalty is nan; it must be -10 .. 10",
            params.beams.length_penalty = NAN);
    REFUSES("sampling.length_penalty is inf; it must be -10 .. 10",
            params.beams.length_penalty = INFINITY);
    REFUSES("sampling.early_stopping is unknown; it must be FALSE, TRUE or NEVER",
            params.beams.early_stopping = EARLY_STOPPING_UNKNOWN);
    REFUSES("sampling.temperature is 0.5; it must be 0 with beam_width", params.temperature = 0.5f);
    REFUSES("sampling.logprobs is 1; it must be 0 with beam_width", params.n_logprobs = 1);
    REFUSES("sampling.prompt_logprobs is 3; it must be absent with beam_width",
            params.scores_prompt = true, params.n_prompt_logprobs = 3);
    REFUSES("sampling.reply_window is 64; it must be absent with beam_width",
            params.reply_window = 64);
    REFUSES("sampling.constraint is there; it must be absent with beam_width",
            params.rules = &rules);
}

Test(beam_params, take_the_ends_of_each_range)
{
    struct sampling_params params = search_of(16, 16);
    struct error error = {0};
    params.beams.length_penalty = -10;
    cr_expect_eq(sampling_check(&params, VOCABULARY, &error), STATUS_OK, "%s", error.text);
    params = search_of(2, 1);
    params.beams.length_penalty = 10;
    cr_expect_eq(sampling_check(&params, VOCABULARY, &error), STATUS_OK, "%s", error.text);
}

/* ---- a message between processes ---- */

static void expect_refused(const Kvferry__V1__SamplingParams *plain,
                           const Kvferry__Internal__V1__RuledSampling *ruled, const char *sentence)
{
    struct sampling_params again;
    struct token_rules rules;
    struct error error = {0};
    cr_expect_eq(sampling_message_decode(plain, ruled, VOCABULARY, &again, &rules, &error),
                 STATUS_INVALID_ARGUMENT);
    cr_expect_str_eq(error.text, sentence);
}

#define MISPLACED                                                                                  \
    "sampling.beam_width is there; between processes it belongs into ruled_sampling.beam_sampling"
#define ALONE                                                                                      \
    "ruled_sampling.beam_sampling takes the place of sampling, and has a beam_width over 1"

Test(beam_params, a_search_where_any_version_reads_is_refused)
{
    struct sampling_params params = search_of(4, 2);
    struct sampling_message search;
    Kvferry__Internal__V1__RuledSampling ruled;
    kvferry__internal__v1__ruled_sampling__init(&ruled);
    sampling_message_make(&params, &search);
    expect_refused(&search.params, NULL, MISPLACED);
    ruled.sampling = &search.params;
    expect_refused(NULL, &ruled, MISPLACED);
    ruled.sampling = NULL;
    ruled.newer_sampling = &search.params;
    expect_refused(NULL, &ruled, MISPLACED);
    ruled.newer_sampling = NULL;
    ruled.newest_sampling = &search.params;
    expect_refused(NULL, &ruled, MISPLACED);
}

Test(beam_params, a_search_is_alone_in_its_place_and_is_one)
{
    struct sampling_params params = search_of(4, 2), filtered = SAMPLING_GREEDY;
    struct sampling_message search, newest;
    Kvferry__V1__SamplingParams plain;
    filtered.typical_p = 0.5f;
    sampling_message_make(&params, &search);
    sampling_message_make(&filtered, &newest);
    sampling_encode(&SAMPLING_GREEDY, &plain);
    search.ruled.sampling = &plain;
    expect_refused(NULL, &search.ruled, ALONE);
    search.ruled.sampling = NULL;
    search.ruled.newest_sampling = &newest.params;
    expect_refused(NULL, &search.ruled, ALONE);
    search.ruled.newest_sampling = NULL;
    expect_refused(&plain, &search.ruled,
                   "sampling and ruled_sampling are both there; one of them is wanted");
    search.params.beam_width = 1;
    expect_refused(NULL, &search.ruled, ALONE);
    search.params.beam_width = 17;
    expect_refused(NULL, &search.ruled, "sampling.beam_width is 17; it must be 0 .. 16");
    search.params.beam_width = 4;
    search.params.temperature_presence_case = 0;
    expect_refused(NULL, &search.ruled,
                   "sampling.temperature is absent; requests between processes have it");
}

/* ---- stop strings ---- */

Test(beam_params, have_stop_strings_that_survive_the_wire)
{
    const struct token_rules rules = {
        .stops = {.n = 2, .bytes = {3, 2}, .texts = {"a\0b", "\xc3\xa9"}}};
    struct sampling_params params = search_of(4, 2), again;
    struct error error = {0};
    params.rules = &rules;
    cr_assert_eq(cross(&params, &again, &error), STATUS_OK, "%s", error.text);
    cr_assert_not_null(again.rules);
    cr_assert_eq(again.rules->stops.n, 2);
    cr_expect_eq(again.rules->stops.bytes[0], 3);
    cr_expect_arr_eq(again.rules->stops.texts[0], "a\0b", 3);
    cr_expect_eq(again.rules->stops.bytes[1], 2);
    cr_expect_arr_eq(again.rules->stops.texts[1], "\xc3\xa9", 2);
}

Test(beam_params, have_stop_strings_that_are_checked)
{
    static uint8_t text[257];
    ProtobufCBinaryData stops[17];
    const struct sampling_params params = search_of(4, 2);
    struct sampling_message search;
    for (int i = 0; i < 17; i++)
        stops[i] = (ProtobufCBinaryData){1, text};
    sampling_message_make(&params, &search);
    search.params.stop = stops;
    search.params.n_stop = 17;
    expect_refused(NULL, &search.ruled, "sampling.stop is 17; it must be at most 16 strings");
    search.params.n_stop = 2;
    stops[1].len = 0;
    expect_refused(NULL, &search.ruled,
                   "sampling.stop[1] is of 0 bytes; it must be of 1 .. 256 bytes");
    stops[1].len = 257;
    expect_refused(NULL, &search.ruled,
                   "sampling.stop[1] is of 257 bytes; it must be of 1 .. 256 bytes");
}
