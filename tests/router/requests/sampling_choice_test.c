/* sampling_choice: every field is judged with its path and value; what is absent gets its default. */
#include "router/requests/sampling_choice.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

static const struct generation_defaults DEFAULTS = {
    .temperature = 0.7f, .top_k = 40, .top_p = 0.9f, .repetition_penalty = 1.1f, .typical_p = 1};

#define VOCABULARY 100u

static enum status make(const Kvferry__V1__SamplingParams *message, struct rpc_error *error)
{
    struct sampling_choice choice;
    struct stop_strings stops = {0};
    struct sampling_lists lists;
    memset(error, 0, sizeof *error);
    return sampling_choice_make(message, &DEFAULTS, VOCABULARY, &choice, &stops, &lists, error);
}

#define SET(message, field, FIELD, value)                                                          \
    (message).field##_presence_case = KVFERRY__V1__SAMPLING_PARAMS__##FIELD##_PRESENCE_##FIELD,    \
    (message).field = (value)

#define REFUSES(field_path, ...)                                                                   \
    do {                                                                                           \
        Kvferry__V1__SamplingParams message = KVFERRY__V1__SAMPLING_PARAMS__INIT;                  \
        struct rpc_error error;                                                                    \
        __VA_ARGS__;                                                                               \
        cr_assert_eq(make(&message, &error), STATUS_INVALID_ARGUMENT, "%s", field_path);           \
        cr_assert_str_eq(error.field, field_path);                                                 \
        cr_assert_not_null(strstr(error.message, field_path));                                     \
    } while (0)

#define ACCEPTS(...)                                                                               \
    do {                                                                                           \
        Kvferry__V1__SamplingParams message = KVFERRY__V1__SAMPLING_PARAMS__INIT;                  \
        struct rpc_error error;                                                                    \
        __VA_ARGS__;                                                                               \
        cr_assert_eq(make(&message, &error), STATUS_OK, "%s", error.message);                      \
    } while (0)

Test(sampling_choice, refuses_what_is_out_of_range_by_name)
{
    REFUSES("sampling.temperature", SET(message, temperature, TEMPERATURE, -0.5f));
    REFUSES("sampling.temperature", SET(message, temperature, TEMPERATURE, 101));
    REFUSES("sampling.temperature", SET(message, temperature, TEMPERATURE, NAN));
    REFUSES("sampling.temperature", SET(message, temperature, TEMPERATURE, INFINITY));
    REFUSES("sampling.top_p", SET(message, top_p, TOP_P, 0));
    REFUSES("sampling.top_p", SET(message, top_p, TOP_P, 1.01f));
    REFUSES("sampling.top_p", SET(message, top_p, TOP_P, NAN));
    REFUSES("sampling.min_p", SET(message, min_p, MIN_P, 1.01f));
    REFUSES("sampling.min_p", SET(message, min_p, MIN_P, -0.1f));
    REFUSES("sampling.min_p", SET(message, min_p, MIN_P, NAN));
    REFUSES("sampling.typical_p", SET(message, typical_p, TYPICAL_P, 0));
    REFUSES("sampling.typical_p", SET(message, typical_p, TYPICAL_P, NAN));
    REFUSES("sampling.epsilon_cutoff", SET(message, epsilon_cutoff, EPSILON_CUTOFF, 1));
    REFUSES("sampling.eta_cutoff", SET(message, eta_cutoff, ETA_CUTOFF, -0.1f));
    REFUSES("sampling.no_repeat_ngram_size",
            SET(message, no_repeat_ngram_size, NO_REPEAT_NGRAM_SIZE, 65));
    REFUSES("sampling.repetition_penalty", SET(message, repetition_penalty, REPETITION_PENALTY, 0));
    REFUSES("sampling.repetition_penalty",
            SET(message, repetition_penalty, REPETITION_PENALTY, 101));
    REFUSES("sampling.presence_penalty", SET(message, presence_penalty, PRESENCE_PENALTY, 2.1f));
    REFUSES("sampling.presence_penalty", SET(message, presence_penalty, PRESENCE_PENALTY, NAN));
    REFUSES("sampling.frequency_penalty",
            SET(message, frequency_penalty, FREQUENCY_PENALTY, -2.1f));
    REFUSES("sampling.max_tokens", SET(message, max_tokens, MAX_TOKENS, 0));
    REFUSES("sampling.logprobs", message.logprobs = 21);
}

Test(sampling_choice, refuses_bad_stops)
{
    static uint8_t bytes[257];
    memset(bytes, 'x', sizeof bytes);
    ProtobufCBinaryData many[17];
    for (int i = 0; i < 17; i++)
        many[i] = (ProtobufCBinaryData){3, bytes};
    ProtobufCBinaryData bad_second[] = {{3, bytes}, {0, NULL}};
    ProtobufCBinaryData one[] = {{257, bytes}};
    ProtobufCBinaryData no_utf8[] = {{2, (uint8_t *)"a\xc0"}};
    ProtobufCBinaryData with_nul[] = {{3, (uint8_t *)"a\0b"}};
    uint32_t ids[17] = {0};
    uint32_t foreign[] = {3, VOCABULARY};

    REFUSES("sampling.stop", message.n_stop = 17, message.stop = many);
    REFUSES("sampling.stop[1]", message.n_stop = 2, message.stop = bad_second);
    REFUSES("sampling.stop[0]", message.n_stop = 1, message.stop = one);
    REFUSES("sampling.stop[0]", message.n_stop = 1, message.stop = no_utf8);
    REFUSES("sampling.stop_token_ids", message.n_stop_token_ids = 17, message.stop_token_ids = ids);
    REFUSES("sampling.stop_token_ids[1]", message.n_stop_token_ids = 2,
            message.stop_token_ids = foreign);
    one[0].len = 256;
    ACCEPTS(message.n_stop = 1, message.stop = one);
    ACCEPTS(message.n_stop = 1, message.stop = with_nul);
    ACCEPTS(message.n_stop = 16, message.stop = many);
}

Test(sampling_choice, absent_fields_get_the_models_defaults)
{
    struct sampling_choice choice;
    struct stop_strings stops = {0};
    struct sampling_lists lists;
    struct rpc_error error = {0};
    Kvferry__V1__SamplingParams message = KVFERRY__V1__SAMPLING_PARAMS__INIT;
    cr_assert_eq(
        sampling_choice_make(&message, &DEFAULTS, VOCABULARY, &choice, &stops, &lists, &error),
        STATUS_OK);
    cr_assert_eq(choice.params.temperature, 0.7f);
    cr_assert_eq(choice.params.top_k, 40);
    cr_assert_eq(choice.params.top_p, 0.9f);
    cr_assert_eq(choice.params.repetition_penalty, 1.1f);
    cr_assert_not(choice.has_seed);
    cr_assert_not(choice.has_max_tokens);

    SET(message, temperature, TEMPERATURE, 0);
    SET(message, top_k, TOP_K, 0);
    SET(message, seed, SEED, 0);
    SET(message, min_p, MIN_P, 0.25f);
    cr_assert_eq(
        sampling_choice_make(&message, &DEFAULTS, VOCABULARY, &choice, &stops, &lists, &error),
        STATUS_OK);
    cr_assert_eq(choice.params.temperature, 0);
    cr_assert_eq(choice.params.top_k, 0);
    cr_assert_eq(choice.params.min_p, 0.25f);
    cr_assert(choice.has_seed);
}

Test(sampling_choice, prompt_and_max_tokens_fit_the_context)
{
    struct rpc_error error = {0};
    const struct sampling_choice open = {.params.max_tokens = MAX_TOKENS_DEFAULT};
    struct sampling_choice choice = open;
    cr_assert_eq(sampling_choice_fit(&choice, 100, 2048, &error), STATUS_OK);
    cr_assert_eq(choice.params.max_tokens, 256);
    cr_assert_eq(sampling_choice_fit(&choice, 2040, 2048, &error), STATUS_OK);
    cr_assert_eq(choice.params.max_tokens, 8);
    choice = open;
    cr_assert_eq(sampling_choice_fit(&choice, 2048, 2048, &error), STATUS_PROMPT_TOO_LONG);
    choice.params.min_tokens = 9;
    cr_assert_eq(sampling_choice_fit(&choice, 2040, 2048, &error), STATUS_PROMPT_TOO_LONG);
    cr_assert_str_eq(error.field, "sampling.min_tokens");
    cr_assert_str_eq(error.value, "9");
    choice.params.min_tokens = 0;

    choice.has_max_tokens = true;
    choice.params.max_tokens = 8;
    cr_assert_eq(sampling_choice_fit(&choice, 2040, 2048, &error), STATUS_OK);
    choice.params.max_tokens = 9;
    cr_assert_eq(sampling_choice_fit(&choice, 2040, 2048, &error), STATUS_PROMPT_TOO_LONG);
    cr_assert_str_eq(error.field, "sampling.max_tokens");
    cr_assert_str_eq(error.value, "9");
    cr_assert_not_null(strstr(error.message, "2048"));
    cr_assert_eq(sampling_choice_fit(&choice, 2048, 2048, &error), STATUS_PROMPT_TOO_LONG);
    cr_assert_str_eq(error.field, "prompt", "no max_tokens would help");
    choice.params.max_tokens = UINT32_MAX;
    cr_assert_eq(sampling_choice_fit(&choice, UINT32_MAX, 2048, &error), STATUS_PROMPT_TOO_LONG);
}

Test(sampling_choice, a_reply_may_end_with_the_context)
{
    struct rpc_error error = {0};
    const struct sampling_choice open = {.params.max_tokens = MAX_TOKENS_DEFAULT,
                                         .ends_with_context = true};
    struct sampling_choice choice = open;
    cr_assert_eq(sampling_choice_fit(&choice, 100, 2048, &error), STATUS_OK);
    cr_assert_eq(choice.params.max_tokens, 1948, "all of it");
    choice = open;
    choice.has_max_tokens = true;
    cr_assert_eq(sampling_choice_fit(&choice, 100, 2048, &error), STATUS_OK);
    cr_assert_eq(choice.params.max_tokens, MAX_TOKENS_DEFAULT, "as asked for");
    cr_assert_eq(sampling_choice_fit(&choice, 2040, 2048, &error), STATUS_OK);
    cr_assert_eq(choice.params.max_tokens, 8);
    choice = open;
    cr_assert_eq(sampling_choice_fit(&choice, 2048, 2048, &error), STATUS_PROMPT_TOO_LONG);
    choice.params.min_tokens = 9;
    cr_assert_eq(sampling_choice_fit(&choice, 2040, 2048, &error), STATUS_PROMPT_TOO_LONG);
    cr_assert_eq(sampling_choice_fit(&choice, 2039, 2048, &error), STATUS_OK);
    cr_assert_eq(choice.params.max_tokens, 9);
}

/* ---- beams ---- */

static uint32_t *many_ids(uint32_t id)
{
    static uint32_t ids[1];
    ids[0] = id;
    return ids;
}

Test(sampling_choice, a_search_goes_without_what_it_has_no_use_for)
{
    static ProtobufCBinaryData stop[17] = {{3, (uint8_t *)"END"}};
    Kvferry__V1__Constraint constraint = KVFERRY__V1__CONSTRAINT__INIT;
    constraint.kind_case = KVFERRY__V1__CONSTRAINT__KIND_JSON_OBJECT;
    constraint.json_object = true;
    REFUSES("sampling.beam_width", message.beam_width = 17);
    REFUSES("sampling.beam_width", message.beam_width = UINT32_MAX);
    REFUSES("sampling.n", message.beam_width = 4, message.n = 5);
    REFUSES("sampling.n", message.beam_width = 16, message.n = 17);
    REFUSES("sampling.length_penalty", message.beam_width = 4,
            SET(message, length_penalty, LENGTH_PENALTY, 10.5f));
    REFUSES("sampling.length_penalty", message.beam_width = 4,
            SET(message, length_penalty, LENGTH_PENALTY, NAN));
    REFUSES("sampling.early_stopping", message.beam_width = 4, message.early_stopping = 4);
    REFUSES("sampling.temperature", message.beam_width = 4,
            SET(message, temperature, TEMPERATURE, 0.1f));
    REFUSES("sampling.logprobs", message.beam_width = 4, message.logprobs = 1);
    REFUSES("sampling.prompt_logprobs", message.beam_width = 4,
            SET(message, prompt_logprobs, PROMPT_LOGPROBS, 0));
    REFUSES("sampling.reply_window", message.beam_width = 4,
            SET(message, reply_window, REPLY_WINDOW, 64));
    REFUSES("sampling.constraint", message.beam_width = 4, message.constraint = &constraint);
    REFUSES("sampling.stop", message.beam_width = 4, message.n_stop = 17, message.stop = stop);
    REFUSES("sampling.stop[1]", message.beam_width = 4, message.n_stop = 2, message.stop = stop);
    REFUSES("sampling.stop_token_ids[0]", message.beam_width = 4, message.n_stop_token_ids = 1,
            message.stop_token_ids = many_ids(VOCABULARY));
    REFUSES("sampling.length_penalty", SET(message, length_penalty, LENGTH_PENALTY, 0.5f));
    REFUSES("sampling.length_penalty", message.beam_width = 1,
            SET(message, length_penalty, LENGTH_PENALTY, NAN));
    REFUSES("sampling.early_stopping", message.early_stopping = 2);
    REFUSES("sampling.early_stopping", message.beam_width = 1, message.early_stopping = 3);
    REFUSES("sampling.early_stopping", message.early_stopping = 4);
    ACCEPTS(message.early_stopping = 1, SET(message, length_penalty, LENGTH_PENALTY, 1));
    ACCEPTS(message.beam_width = 16, message.n = 16);
    ACCEPTS(message.beam_width = 4, message.n_stop = 1, message.stop = stop);
    ACCEPTS(message.beam_width = 2, message.n_stop_token_ids = 1,
            message.stop_token_ids = many_ids(5), SET(message, temperature, TEMPERATURE, 0),
            message.early_stopping = 3, SET(message, length_penalty, LENGTH_PENALTY, -10));
    ACCEPTS(message.beam_width = 1, message.n = 16, message.n_stop = 1, message.stop = stop,
            message.logprobs = 3);
}

Test(sampling_choice, the_refusals_of_a_search_are_sentences)
{
    static ProtobufCBinaryData stop[] = {{0, (uint8_t *)""}};
    Kvferry__V1__SamplingParams message = KVFERRY__V1__SAMPLING_PARAMS__INIT;
    struct rpc_error error;
    message.beam_width = 4;
    message.n_stop = 1;
    message.stop = stop;
    cr_assert_eq(make(&message, &error), STATUS_INVALID_ARGUMENT);
    cr_expect_str_eq(error.message, "sampling.stop[0] is of 0 bytes; it must be of 1 .. 256 bytes");
    SET(message, temperature, TEMPERATURE, 1);
    cr_assert_eq(make(&message, &error), STATUS_INVALID_ARGUMENT);
    cr_expect_str_eq(error.message, "sampling.temperature is 1; it must be 0 with beam_width");
}

/* The model's default is 0.7. */
Test(sampling_choice, a_search_draws_nothing_whatever_the_models_default_is)
{
    struct sampling_choice choice;
    struct stop_strings stops = {0};
    struct sampling_lists lists;
    struct rpc_error error = {0};
    Kvferry__V1__SamplingParams message = KVFERRY__V1__SAMPLING_PARAMS__INIT;
    message.beam_width = 4;
    message.n = 3;
    cr_assert_eq(
        sampling_choice_make(&message, &DEFAULTS, VOCABULARY, &choice, &stops, &lists, &error),
        STATUS_OK, "%s", error.message);
    cr_expect_eq(choice.params.temperature, 0);
    cr_expect_eq(choice.params.repetition_penalty, 1.1f, "which Transformers' beams have, too");
    cr_expect_eq(choice.params.beams.n_beams, 4);
    cr_expect_eq(choice.params.beams.n_best, 3);
    message.beam_width = 1;
    cr_assert_eq(
        sampling_choice_make(&message, &DEFAULTS, VOCABULARY, &choice, &stops, &lists, &error),
        STATUS_OK);
    cr_expect_eq(choice.params.temperature, 0.7f);
}

/* ---- rules ---- */

enum { N_MANY = LOGIT_BIASES_MAX + 1 };

/* n biases, of tokens 0, 1, ... */
static void set_biases(Kvferry__V1__SamplingParams *message, size_t n)
{
    static Kvferry__V1__LogitBias biases[N_MANY];
    static Kvferry__V1__LogitBias *list[N_MANY];
    for (size_t i = 0; i < n; i++) {
        kvferry__v1__logit_bias__init(&biases[i]);
        biases[i].token_id = (uint32_t)i;
        biases[i].bias = -100;
        list[i] = &biases[i];
    }
    message->n_logit_bias = n;
    message->logit_bias = list;
}

Test(sampling_choice, refuses_biases_by_index_and_value)
{
    REFUSES("sampling.logit_bias", set_biases(&message, N_MANY));
    REFUSES("sampling.logit_bias[100].token_id", set_biases(&message, VOCABULARY + 1));
    REFUSES("sampling.logit_bias[1].bias", set_biases(&message, 3),
            message.logit_bias[1]->bias = 100.5f);
    REFUSES("sampling.logit_bias[2].bias", set_biases(&message, 3),
            message.logit_bias[2]->bias = NAN);
    REFUSES("sampling.logit_bias[2].token_id", set_biases(&message, 3),
            message.logit_bias[2]->token_id = 0);
    ACCEPTS(set_biases(&message, VOCABULARY));
    ACCEPTS(set_biases(&message, 3), message.logit_bias[1]->bias = 100);
}

Test(sampling_choice, refuses_lists_of_tokens_and_words_by_index)
{
    static uint32_t many[ALLOWED_TOKEN_IDS_MAX + 1], foreign[] = {3, VOCABULARY};
    static uint8_t bytes[257];
    ProtobufCBinaryData words[BAD_WORDS_MAX + 1], no_utf8 = {2, (uint8_t *)"a\xc0"};
    memset(bytes, 'x', sizeof bytes);
    for (uint32_t i = 0; i <= BAD_WORDS_MAX; i++)
        words[i] = (ProtobufCBinaryData){256, bytes};
    REFUSES("sampling.allowed_token_ids", message.allowed_token_ids = many,
            message.n_allowed_token_ids = ALLOWED_TOKEN_IDS_MAX + 1);
    REFUSES("sampling.allowed_token_ids[1]", message.allowed_token_ids = foreign,
            message.n_allowed_token_ids = 2);
    ACCEPTS(message.allowed_token_ids = many, message.n_allowed_token_ids = ALLOWED_TOKEN_IDS_MAX);
    REFUSES("sampling.bad_words", message.bad_words = words,
            message.n_bad_words = BAD_WORDS_MAX + 1);
    ACCEPTS(message.bad_words = words, message.n_bad_words = BAD_WORDS_MAX);
    words[1].len = 257;
    REFUSES("sampling.bad_words[1]", message.bad_words = words, message.n_bad_words = 2);
    words[1].len = 0;
    REFUSES("sampling.bad_words[1]", message.bad_words = words, message.n_bad_words = 2);
    words[1] = no_utf8;
    REFUSES("sampling.bad_words[1]", message.bad_words = words, message.n_bad_words = 2);
}

Test(sampling_choice, min_tokens_fit_max_tokens_and_raise_the_default)
{
    struct sampling_choice choice;
    struct stop_strings stops = {0};
    struct sampling_lists lists;
    struct rpc_error error = {0};
    Kvferry__V1__SamplingParams message = KVFERRY__V1__SAMPLING_PARAMS__INIT;
    REFUSES("sampling.min_tokens", SET(message, max_tokens, MAX_TOKENS, 4), message.min_tokens = 5);
    ACCEPTS(SET(message, max_tokens, MAX_TOKENS, 4), message.min_tokens = 4);
    message.min_tokens = 300;
    cr_assert_eq(
        sampling_choice_make(&message, &DEFAULTS, VOCABULARY, &choice, &stops, &lists, &error),
        STATUS_OK);
    cr_assert_eq(choice.params.max_tokens, 300);
    cr_assert_eq(choice.params.min_tokens, 300);
    cr_assert_eq(sampling_choice_fit(&choice, 100, 400, &error), STATUS_OK);
    cr_assert_eq(sampling_choice_fit(&choice, 101, 400, &error), STATUS_PROMPT_TOO_LONG);
    message.min_tokens = 10;
    cr_assert_eq(
        sampling_choice_make(&message, &DEFAULTS, VOCABULARY, &choice, &stops, &lists, &error),
        STATUS_OK);
    cr_assert_eq(choice.params.max_tokens, MAX_TOKENS_DEFAULT);
    cr_assert_eq(sampling_choice_fit(&choice, 100, 120, &error), STATUS_OK);
    cr_assert_eq(choice.params.max_tokens, 20);
}

Test(sampling_choice, only_given_rules_are_there)
{
    struct sampling_choice choice;
    struct stop_strings stops = {0};
    struct sampling_lists lists;
    struct rpc_error error = {0};
    Kvferry__V1__SamplingParams message = KVFERRY__V1__SAMPLING_PARAMS__INIT;
    cr_assert_eq(
        sampling_choice_make(&message, &DEFAULTS, VOCABULARY, &choice, &stops, &lists, &error),
        STATUS_OK);
    cr_assert_null(choice.params.rules);
    cr_assert_not(stops.is_kept);
    set_biases(&message, 2);
    message.include_stop_str_in_output = true;
    cr_assert_eq(
        sampling_choice_make(&message, &DEFAULTS, VOCABULARY, &choice, &stops, &lists, &error),
        STATUS_OK);
    cr_assert_eq(choice.params.rules->n_biases, 2);
    cr_assert_eq(choice.params.rules->bias_ids[1], 1);
    cr_assert_eq(choice.params.rules->biases[1], -100);
    cr_assert(stops.is_kept);
}
