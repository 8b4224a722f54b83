/* openai_beams: what asks for a beam search, as vLLM spells it and with our own member; what the router refuses in it is told by the
 * member that asked; replies have their scores. */
#include "api/openai/openai_beams.h"
#include "api/openai/openai_reply.h"
#include "api/openai/openai_request.h"
#include "tests/router/support/chat_limits_sample.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static struct openai_request request;
static struct openai_error error;

static void forget(void)
{
    openai_request_finish(&request);
}

TestSuite(openai_beams, .fini = forget);

static bool reads(bool is_chat, const char *members)
{
    char body[400];
    snprintf(body, sizeof body, "{%s, %s}",
             is_chat ? "\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]"
                     : "\"prompt\": \"x\"",
             members);
    openai_request_finish(&request);
    return openai_request_read(&request, is_chat, &CHAT_LIMITS_SAMPLE, body, strlen(body), &error);
}

#define NO_PENALTY KVFERRY__V1__SAMPLING_PARAMS__LENGTH_PENALTY_PRESENCE__NOT_SET

Test(openai_beams, reach_the_message)
{
    static const struct {
        const char *members;
        uint32_t width, n;
        Kvferry__V1__EarlyStopping stopping;
    } ROWS[] = {
        {"\"n\": 3", 0, 3, KVFERRY__V1__EARLY_STOPPING__EARLY_STOPPING_UNSPECIFIED},
        {"\"use_beam_search\": true, \"n\": 3", 3, 3,
         KVFERRY__V1__EARLY_STOPPING__EARLY_STOPPING_UNSPECIFIED},
        {"\"use_beam_search\": true, \"n\": 16, \"early_stopping\": true", 16, 16,
         KVFERRY__V1__EARLY_STOPPING__EARLY_STOPPING_TRUE},
        {"\"use_beam_search\": true, \"beam_width\": 4", 4, 1,
         KVFERRY__V1__EARLY_STOPPING__EARLY_STOPPING_UNSPECIFIED},
        {"\"beam_width\": 4, \"n\": 2, \"early_stopping\": \"never\"", 4, 2,
         KVFERRY__V1__EARLY_STOPPING__EARLY_STOPPING_NEVER},
        {"\"use_beam_search\": false, \"n\": 2, \"early_stopping\": false", 0, 2,
         KVFERRY__V1__EARLY_STOPPING__EARLY_STOPPING_FALSE},
        {"\"use_beam_search\": false, \"beam_width\": 1", 1, 1,
         KVFERRY__V1__EARLY_STOPPING__EARLY_STOPPING_UNSPECIFIED},
        {"\"use_beam_search\": null, \"beam_width\": null, \"early_stopping\": null", 0, 1,
         KVFERRY__V1__EARLY_STOPPING__EARLY_STOPPING_UNSPECIFIED},
    };
    for (size_t i = 0; i < 2 * sizeof ROWS / sizeof *ROWS; i++) {
        cr_assert(reads(i % 2, ROWS[i / 2].members), "%s", error.message);
        cr_expect_eq(request.sampling.beam_width, ROWS[i / 2].width, "%s", ROWS[i / 2].members);
        cr_expect_eq(request.sampling.n, ROWS[i / 2].n);
        cr_expect_eq(request.sampling.early_stopping, ROWS[i / 2].stopping);
        cr_expect_eq(request.sampling.length_penalty_presence_case, NO_PENALTY);
    }
    cr_assert(reads(false, "\"beam_width\": 2, \"length_penalty\": 0"));
    cr_expect_neq(request.sampling.length_penalty_presence_case, NO_PENALTY);
    cr_expect_eq(request.sampling.length_penalty, 0);
}

static void expect_told(const char *members, const char *field, const char *told_as)
{
    struct openai_error told;
    char sentence[200], wanted[200];
    cr_assert(reads(false, members), "%s", error.message);
    snprintf(sentence, sizeof sentence, "%s is 1; it must be 0 with beam_width", field);
    snprintf(wanted, sizeof wanted, "%s is 1; it must be 0 with %s", field, told_as);
    openai_error_set(&told, 400, "invalid_value", field, "%s", sentence);
    openai_request_rename(&request, &told);
    cr_expect_str_eq(told.message, wanted);
    cr_expect_str_eq(told.param, field);
}

Test(openai_beams, refusals_name_the_member_that_asked)
{
    expect_told("\"use_beam_search\": true, \"n\": 2", "temperature", "use_beam_search");
    expect_told("\"beam_width\": 2", "temperature", "beam_width");
    expect_told("\"use_beam_search\": true, \"n\": 2", "logprobs", "use_beam_search");
    struct openai_error told;
    cr_assert(reads(false, "\"use_beam_search\": true, \"n\": 2"));
    openai_error_set(&told, 400, NULL, "n", "%s", "with beam_width comes more");
    openai_request_rename(&request, &told);
    cr_expect_str_eq(told.message, "with beam_width comes more");
}

/* Nothing is written behind a sentence that has no room for it. */
Test(openai_beams, a_sentence_without_room_stays)
{
    struct openai_error told = {0};
    static const char TAIL[] = " with beam_width";
    cr_assert(reads(false, "\"use_beam_search\": true, \"n\": 2"));
    memset(told.message, 'x', sizeof told.message - 1);
    memcpy(told.message + sizeof told.message - sizeof TAIL, TAIL, sizeof TAIL);
    openai_beams_rename(request.body, &told);
    cr_expect_eq(strlen(told.message), sizeof told.message - 1);
    cr_expect(strstr(told.message, "with beam_width"));
}

/* ---- replies ---- */

static void expect_score(float score, double shown)
{
    const struct reply_kind kind = {.id = "x", .model = "m"};
    const struct reply_end end = {.has_beam_score = true, .beam_score = score};
    json_t *body = reply_chunk(&kind, 1, false, "", 0, NULL, "stop", &end);
    const json_t *choice = json_array_get(json_object_get(body, "choices"), 0);
    cr_assert_not_null(choice);
    cr_expect_eq(json_real_value(json_object_get(choice, "beam_score")), shown);
    json_decref(body);
}

Test(openai_beams, a_score_is_in_the_end_of_a_choice)
{
    expect_score(-1.5f, -1.5);
    expect_score(-INFINITY, -(double)FLT_MAX);
    const struct reply_kind kind = {.id = "x", .model = "m"};
    const struct reply_end drawn = {.has_beam_score = false};
    json_t *body = reply_chunk(&kind, 0, false, "", 0, NULL, "stop", &drawn);
    cr_expect_null(
        json_object_get(json_array_get(json_object_get(body, "choices"), 0), "beam_score"));
    json_decref(body);
}
