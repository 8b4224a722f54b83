/* sampling_codec: what goes out comes in equal; gaps are filled or refused, never zeros by accident. */
#include "sampling_params/sampling_codec.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

Test(sampling_codec, parameters_survive_the_wire)
{
    struct sampling_params params = SAMPLING_GREEDY, again;
    params.temperature = 0.5f;
    params.top_k = 3;
    params.seed = UINT64_MAX;
    params.top_p = 0.75f;
    params.min_p = 0.125f;
    params.repetition_penalty = 1.5f;
    params.presence_penalty = -0.25f;
    params.frequency_penalty = 0.375f;
    params.n_stop_token_ids = 2;
    params.stop_token_ids[1] = 9;
    params.ignore_eos = true;
    params.n_logprobs = 4;
    Kvferry__V1__SamplingParams message;
    struct error error = {0};
    sampling_encode(&params, &message);
    cr_assert_eq(sampling_decode(&message, 10, &again, &error), STATUS_OK, "%s", error.text);
    cr_assert_eq(again.temperature, 0.5f);
    cr_assert_eq(again.top_k, 3);
    cr_assert_eq(again.top_p, 0.75f);
    cr_assert_eq(again.min_p, 0.125f);
    cr_assert_eq(again.repetition_penalty, 1.5f);
    cr_assert_eq(again.presence_penalty, -0.25f);
    cr_assert_eq(again.frequency_penalty, 0.375f);
    cr_assert_eq(again.seed, UINT64_MAX);
    cr_assert_eq(again.n_stop_token_ids, 2);
    cr_assert_eq(again.stop_token_ids[1], 9);
    cr_assert(again.ignore_eos);
    cr_assert_eq(again.n_logprobs, 4);
}

Test(sampling_codec, inner_requests_are_complete_and_in_range)
{
    struct sampling_params params = SAMPLING_GREEDY, again;
    Kvferry__V1__SamplingParams message;
    struct error error = {0};
    cr_assert_eq(sampling_decode(NULL, 10, &again, &error), STATUS_INVALID_ARGUMENT);
    sampling_encode(&params, &message);
    message.seed_presence_case = 0;
    cr_assert_eq(sampling_decode(&message, 10, &again, &error), STATUS_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(error.text, "seed"));
    sampling_encode(&params, &message);
    message.temperature = NAN;
    cr_assert_eq(sampling_decode(&message, 10, &again, &error), STATUS_INVALID_ARGUMENT);
    uint32_t ids[17] = {0};
    sampling_encode(&params, &message);
    message.stop_token_ids = ids;
    message.n_stop_token_ids = 17;
    cr_assert_eq(sampling_decode(&message, 10, &again, &error), STATUS_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(error.text, "stop_token_ids"));
}

Test(sampling_codec, what_is_given_goes_over_what_was_there)
{
    struct sampling_params params = SAMPLING_GREEDY;
    params.temperature = 0.7f;
    params.top_k = 40;
    params.min_p = 0.5f;
    Kvferry__V1__SamplingParams message = KVFERRY__V1__SAMPLING_PARAMS__INIT;
    message.top_k_presence_case = KVFERRY__V1__SAMPLING_PARAMS__TOP_K_PRESENCE_TOP_K;
    message.top_k = 0;
    sampling_decode_given(&message, &params);
    cr_assert_eq(params.top_k, 0, "a given zero is no gap");
    cr_assert_eq(params.temperature, 0.7f);
    cr_assert_eq(params.max_tokens, 256);
    cr_assert_eq(params.min_p, 0.5f);
}

Test(sampling_codec, the_sent_message_has_no_gaps)
{
    const struct sampling_params params = {
        .max_tokens = 5, .top_p = 1, .typical_p = 1, .repetition_penalty = 1};
    struct sampling_params again;
    Kvferry__V1__SamplingParams message;
    struct error error = {0};
    sampling_encode(&params, &message);
    cr_assert_eq(sampling_decode(&message, 10, &again, &error), STATUS_OK, "%s", error.text);
    cr_assert_eq(message.n_stop, 0);
}

Test(token_logprobs, survive_the_wire_up_to_their_bound)
{
    struct token_logprobs logprobs = {.logprob = -0.5f, .n_top = LOGPROBS_MAX}, again;
    struct token_logprobs_message message;
    for (uint32_t i = 0; i < LOGPROBS_MAX; i++) {
        logprobs.top_ids[i] = 100 + i;
        logprobs.top_logprobs[i] = -(float)i;
    }
    token_logprobs_encode(&logprobs, &message);
    cr_assert_eq(token_logprobs_decode(&message.message, &again), STATUS_OK);
    cr_assert_eq(again.logprob, -0.5f);
    cr_assert_eq(again.n_top, LOGPROBS_MAX);
    cr_assert_eq(again.top_ids[LOGPROBS_MAX - 1], 119);
    cr_assert_eq(again.top_logprobs[3], -3);
    message.message.n_top = LOGPROBS_MAX + 1;
    cr_assert_eq(token_logprobs_decode(&message.message, &again), STATUS_INVALID_ARGUMENT);
}

/* ---- with rules ---- */

static const uint32_t BIAS_IDS[] = {3, 8}, ALLOWED[] = {1, 3}, LENGTHS[] = {2}, BAD[] = {5, 6};
static const float BIASES[] = {-1.5f, 100};

static enum status cross(const struct sampling_params *params, struct sampling_params *again_out,
                         struct token_rules *rules_out, struct error *error)
{
    struct sampling_message message;
    sampling_message_make(params, &message);
    size_t n = kvferry__internal__v1__ruled_sampling__get_packed_size(&message.ruled);
    uint8_t bytes[256];
    cr_assert_leq(n, sizeof bytes);
    cr_assert_null(message.sampling, "an older worker is to find none");
    kvferry__internal__v1__ruled_sampling__pack(message.ruled_sampling, bytes);
    static Kvferry__Internal__V1__RuledSampling *unpacked;
    if (unpacked)
        kvferry__internal__v1__ruled_sampling__free_unpacked(unpacked, NULL);
    unpacked = kvferry__internal__v1__ruled_sampling__unpack(NULL, n, bytes);
    return sampling_message_decode(NULL, unpacked, 10, again_out, rules_out, error);
}

/* Each alone: an older worker would ignore it among the parameters that it knows. */
Test(sampling_message, filters_survive_the_wire_out_of_reach_of_an_older_worker)
{
    static const char *const FIELDS[] = {"typical_p", "epsilon_cutoff", "eta_cutoff",
                                         "no_repeat_ngram_size"};
    for (int i = 0; i < 4; i++) {
        struct sampling_params params = SAMPLING_GREEDY, again;
        struct token_rules into;
        struct error error = {0};
        char path[64];
        params.typical_p = i == 0 ? 0.25f : 1;
        params.epsilon_cutoff = i == 1 ? 0.25f : 0;
        params.eta_cutoff = i == 2 ? 0.25f : 0;
        params.no_repeat_ngram_size = i == 3 ? 3 : 0;
        cr_assert_eq(cross(&params, &again, &into, &error), STATUS_OK, "%s", error.text);
        cr_assert_eq(again.typical_p, params.typical_p);
        cr_assert_eq(again.epsilon_cutoff, params.epsilon_cutoff);
        cr_assert_eq(again.eta_cutoff, params.eta_cutoff);
        cr_assert_eq(again.no_repeat_ngram_size, params.no_repeat_ngram_size);
        params.scores_prompt = true; /* which an older worker reads */
        struct sampling_message both;
        sampling_message_make(&params, &both);
        cr_assert(both.ruled_sampling && !both.ruled.sampling && !both.ruled.newer_sampling &&
                  both.ruled.newest_sampling);
        params.scores_prompt = false;
        snprintf(path, sizeof path, "sampling.%s", FIELDS[i]);
        cr_assert_str_eq(sampling_first_rule(&params), path);

        struct sampling_message message;
        sampling_message_make(&params, &message);
        cr_assert_eq(sampling_message_decode(&message.params, NULL, 10, &again, &into, &error),
                     STATUS_INVALID_ARGUMENT);
        cr_assert(strstr(error.text, FIELDS[i]), "%s", error.text);
    }
}

Test(sampling_message, rules_survive_the_wire)
{
    const struct token_rules rules = {2,       BIAS_IDS, BIASES, 2,   ALLOWED, 1,
                                      LENGTHS, 2,        BAD,    {0}, {0}};
    struct sampling_params params = SAMPLING_GREEDY, again;
    struct token_rules into;
    struct error error = {0};
    params.rules = &rules;
    params.min_tokens = 4;
    cr_assert_eq(cross(&params, &again, &into, &error), STATUS_OK, "%s", error.text);
    cr_assert_eq(again.min_tokens, 4);
    cr_assert_eq(again.rules, &into);
    cr_assert(into.n_biases == 2 && into.n_allowed == 2 && into.n_bad == 1 && into.n_bad_ids == 2);
    cr_assert_arr_eq(into.bias_ids, BIAS_IDS, sizeof BIAS_IDS);
    cr_assert_arr_eq(into.biases, BIASES, sizeof BIASES);
    cr_assert_arr_eq(into.allowed_ids, ALLOWED, sizeof ALLOWED);
    cr_assert_arr_eq(into.bad_lengths, LENGTHS, sizeof LENGTHS);
    cr_assert_arr_eq(into.bad_ids, BAD, sizeof BAD);
    params.rules = NULL;
    cr_assert_eq(cross(&params, &again, &into, &error), STATUS_OK, "%s", error.text);
    cr_assert_null(again.rules);
    cr_assert_eq(again.min_tokens, 4);
}

Test(sampling_message, scores_of_the_prompt_survive_where_an_older_worker_finds_no_sampling)
{
    const struct token_rules rules = {.n_biases = 2,
                                      .bias_ids = BIAS_IDS,
                                      .biases = BIASES,
                                      .n_allowed = 2,
                                      .allowed_ids = ALLOWED,
                                      .n_bad = 1,
                                      .bad_lengths = LENGTHS,
                                      .n_bad_ids = 2,
                                      .bad_ids = BAD};
    static const uint32_t TOPS[] = {0, 5, LOGPROBS_MAX};
    for (size_t i = 0; i < 2 * sizeof TOPS / sizeof *TOPS; i++) {
        struct sampling_params params = SAMPLING_GREEDY, again;
        struct sampling_message message;
        struct token_rules into;
        struct error error = {0};
        params.scores_prompt = true;
        params.n_prompt_logprobs = TOPS[i / 2];
        params.rules = i % 2 ? &rules : NULL;
        sampling_message_make(&params, &message);
        cr_assert_null(message.sampling);
        cr_assert_null(message.ruled_sampling->sampling);
        cr_assert_eq(cross(&params, &again, &into, &error), STATUS_OK, "%s", error.text);
        cr_assert(again.scores_prompt && again.n_prompt_logprobs == params.n_prompt_logprobs);
        cr_assert_eq(again.rules, i % 2 ? &into : NULL);
        cr_assert_str_eq(sampling_first_rule(&params), "sampling.prompt_logprobs");
    }
}

Test(sampling_message, scores_in_a_place_that_any_version_reads_are_refused)
{
    struct sampling_params params = SAMPLING_GREEDY, again;
    struct sampling_message message, both;
    struct token_rules into;
    struct error error = {0};
    params.scores_prompt = true;
    sampling_message_make(&params, &message);
    cr_assert_eq(sampling_message_decode(&message.params, NULL, 10, &again, &into, &error),
                 STATUS_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(error.text, "sampling.prompt_logprobs is there"));
    both = message;
    both.ruled.sampling = &message.params;
    cr_assert_eq(sampling_message_decode(NULL, &both.ruled, 10, &again, &into, &error),
                 STATUS_INVALID_ARGUMENT);
    Kvferry__V1__SamplingParams plain;
    sampling_encode(&SAMPLING_GREEDY, &plain);
    both.ruled.sampling = &plain;
    cr_assert_eq(sampling_message_decode(NULL, &both.ruled, 10, &again, &into, &error),
                 STATUS_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(error.text, "newer_sampling takes the place of sampling"));
    message.params.prompt_logprobs = LOGPROBS_MAX + 1;
    cr_assert_eq(sampling_message_decode(NULL, &message.ruled, 10, &again, &into, &error),
                 STATUS_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(error.text, "prompt_logprobs"), "%s", error.text);
}

Test(prompt_scores, survive_the_wire_up_to_their_bounds)
{
    static struct token_logprobs rows[PROMPT_SCORES_MAX], again[PROMPT_SCORES_MAX];
    static struct prompt_scores_message message;
    struct prompt_scores scores = {.first = 5, .n = PROMPT_SCORES_MAX, .logprobs = rows};
    for (uint32_t i = 0; i < PROMPT_SCORES_MAX; i++)
        rows[i] = (struct token_logprobs){
            .logprob = -(float)i, .n_top = 1, .top_ids = {i}, .top_logprobs = {-0.5f}};
    prompt_scores_encode(&scores, &message);
    cr_assert_eq(prompt_scores_decode(message.list, PROMPT_SCORES_MAX, again), STATUS_OK);
    cr_assert_arr_eq(again, rows, sizeof rows);
    cr_assert_eq(prompt_scores_decode(message.list, 0, again), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(prompt_scores_decode(message.list, PROMPT_SCORES_MAX + 1, again),
                 STATUS_INVALID_ARGUMENT);
    message.list[3]->n_top = LOGPROBS_MAX + 1;
    cr_assert_eq(prompt_scores_decode(message.list, 4, again), STATUS_INVALID_ARGUMENT);
}

Test(sampling_message, without_rules_it_is_what_it_was)
{
    struct sampling_params params = SAMPLING_GREEDY, again;
    struct sampling_message message;
    struct token_rules into;
    struct error error = {0};
    sampling_message_make(&params, &message);
    cr_assert_null(message.ruled_sampling);
    cr_assert_eq(sampling_message_decode(message.sampling, NULL, 10, &again, &into, &error),
                 STATUS_OK);
    cr_assert_null(again.rules);
    cr_assert_null(sampling_first_rule(&again));
}

Test(sampling_message, what_does_not_fit_is_refused_by_name)
{
    const struct token_rules rules = {2,       BIAS_IDS, BIASES, 2,   ALLOWED, 1,
                                      LENGTHS, 2,        BAD,    {0}, {0}};
    struct sampling_params params = SAMPLING_GREEDY, again;
    struct sampling_message message;
    struct token_rules into;
    struct error error = {0};
    params.rules = &rules;
    sampling_message_make(&params, &message);
    cr_assert_eq(
        sampling_message_decode(&message.params, &message.ruled, 10, &again, &into, &error),
        STATUS_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(error.text, "ruled_sampling"));
    message.ruled.n_biases = 1;
    cr_assert_eq(sampling_message_decode(NULL, &message.ruled, 10, &again, &into, &error),
                 STATUS_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(error.text, "biases are 1"));
    sampling_message_make(&params, &message);
    cr_assert_eq(sampling_message_decode(NULL, &message.ruled, 8, &again, &into, &error),
                 STATUS_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(error.text, "sampling.logit_bias[1].token_id is 8"));
    message.ruled.sampling = NULL;
    cr_assert_eq(sampling_message_decode(NULL, &message.ruled, 10, &again, &into, &error),
                 STATUS_INVALID_ARGUMENT);
}

static void expect_constraint(const struct reply_constraint *sent)
{
    const struct token_rules rules = {.constraint = *sent};
    struct sampling_params params = SAMPLING_GREEDY, again;
    struct token_rules into;
    struct error error = {0};
    params.rules = &rules;
    cr_assert_eq(cross(&params, &again, &into, &error), STATUS_OK, "%s", error.text);
    cr_assert_eq(again.rules, &into);
    cr_assert_eq(into.constraint.kind, sent->kind);
    cr_assert_eq(into.constraint.n_texts, sent->n_texts);
    for (uint32_t i = 0; i < sent->n_texts; i++)
        cr_assert_str_eq(into.constraint.texts[i], sent->texts[i]);
    cr_assert_str_eq(sampling_first_rule(&again), "sampling.constraint");
}

Test(sampling_message, a_constraint_of_each_kind_survives_the_wire)
{
    static const char *const TEXTS[] = {"{\"type\": \"integer\"}", "", "yes"};
    for (enum reply_constraint_kind kind = REPLY_JSON_SCHEMA; kind < REPLY_CHOICES; kind++)
        expect_constraint(&(struct reply_constraint){
            .kind = kind, .n_texts = kind != REPLY_JSON_OBJECT, .texts = TEXTS});
    expect_constraint(&(struct reply_constraint){REPLY_CHOICES, 3, TEXTS});
}

/* A worker that knows rules, but no constraints, looks for the field sampling of RuledSampling. */
Test(sampling_message, a_constraint_is_never_where_it_could_be_ignored)
{
    const struct token_rules rules = {.constraint = {.kind = REPLY_JSON_OBJECT}};
    struct sampling_params params = SAMPLING_GREEDY, again;
    struct sampling_message message;
    struct token_rules into;
    struct error error = {0};
    params.rules = &rules;
    sampling_message_make(&params, &message);
    cr_assert_null(message.sampling);
    cr_assert_null(message.ruled_sampling->sampling);
    cr_assert_eq(sampling_message_decode(&message.params, NULL, 10, &again, &into, &error),
                 STATUS_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(error.text, "sampling.constraint"));
    message.ruled.sampling = &message.params;
    cr_assert_eq(sampling_message_decode(NULL, &message.ruled, 10, &again, &into, &error),
                 STATUS_INVALID_ARGUMENT);
    message.ruled.sampling = NULL;
    message.params.constraint = NULL;
    cr_assert_eq(sampling_message_decode(NULL, &message.ruled, 10, &again, &into, &error),
                 STATUS_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(error.text, "newer_sampling"));
    message.params.constraint = &message.constraint;
    message.constraint.kind_case = KVFERRY__V1__CONSTRAINT__KIND__NOT_SET;
    cr_assert_eq(sampling_message_decode(NULL, &message.ruled, 10, &again, &into, &error),
                 STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(error.text, "sampling.constraint is empty; it must be of one of its kinds");
}

Test(sampling_message, a_constraint_and_scores_of_the_prompt_survive_together)
{
    static const char *const TEXT[] = {"[0-9]+"};
    const struct token_rules rules = {
        .constraint = {.kind = REPLY_REGEX, .n_texts = 1, .texts = TEXT}};
    struct sampling_params params = SAMPLING_GREEDY, again;
    struct token_rules into;
    struct error error = {0};
    params.rules = &rules;
    params.scores_prompt = true;
    params.n_prompt_logprobs = 3;
    cr_assert_eq(cross(&params, &again, &into, &error), STATUS_OK, "%s", error.text);
    cr_assert(again.scores_prompt && again.n_prompt_logprobs == 3 && again.rules == &into);
    cr_assert_eq(into.constraint.kind, REPLY_REGEX);
}

/* As a worker without the field ruled_sampling does. */
Test(sampling_message, the_refusal_of_an_older_worker_is_known)
{
    struct sampling_params params = SAMPLING_GREEDY, again;
    struct error error = {0};
    enum status status = sampling_decode(NULL, 10, &again, &error);
    cr_assert(sampling_is_absent(status, error.text));
    cr_assert_not(sampling_is_absent(STATUS_INVALID_ARGUMENT, "sampling.seed is absent"));
    cr_assert_not(sampling_is_absent(STATUS_BUG, error.text));
    params.rules = &(const struct token_rules){.n_bad = 1, .bad_lengths = LENGTHS};
    cr_assert_str_eq(sampling_first_rule(&params), "sampling.bad_words");
    params.rules = &(const struct token_rules){.n_allowed = 1, .allowed_ids = ALLOWED, .n_bad = 1};
    cr_assert_str_eq(sampling_first_rule(&params), "sampling.allowed_token_ids");
    params.rules = &(const struct token_rules){.n_biases = 1, .n_allowed = 1};
    cr_assert_str_eq(sampling_first_rule(&params), "sampling.logit_bias");
    params.min_tokens = 1;
    cr_assert_str_eq(sampling_first_rule(&params), "sampling.min_tokens");
}
