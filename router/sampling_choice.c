#include "router/sampling_choice.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* What is wrong is said once, here. */
struct checker {
    const char *prefix;
    struct rpc_error *error;
};

static enum status refuse(const struct checker *checker, const char *field, const char *value,
                          const char *wanted)
{
    char path[96];
    snprintf(path, sizeof path, "%ssampling.%s", checker->prefix, field);
    rpc_error_set(checker->error, STATUS_INVALID_ARGUMENT, path, value, "%s is %s; it must be %s",
                  path, value, wanted);
    return STATUS_INVALID_ARGUMENT;
}

static enum status refuse_number(const struct checker *checker, const char *field, double number,
                                 const char *wanted)
{
    char value[32];
    snprintf(value, sizeof value, "%g", number);
    return refuse(checker, field, value, wanted);
}

/* NaN fails every comparison, so it is refused. */
static enum status check_floats(const struct sampling_choice *choice, const struct checker *checker)
{
    if (!(choice->temperature >= 0 && choice->temperature <= 100))
        return refuse_number(checker, "temperature", (double)choice->temperature, "0 .. 100");
    if (!(choice->top_p > 0 && choice->top_p <= 1))
        return refuse_number(checker, "top_p", (double)choice->top_p, "over 0, at most 1");
    if (!(choice->min_p >= 0 && choice->min_p < 1))
        return refuse_number(checker, "min_p", (double)choice->min_p, "at least 0, below 1");
    if (!(choice->repetition_penalty > 0 && choice->repetition_penalty <= 100))
        return refuse_number(checker, "repetition_penalty", (double)choice->repetition_penalty,
                             "over 0, at most 100");
    if (!(fabsf(choice->presence_penalty) <= 2))
        return refuse_number(checker, "presence_penalty", (double)choice->presence_penalty,
                             "-2 .. 2");
    if (!(fabsf(choice->frequency_penalty) <= 2))
        return refuse_number(checker, "frequency_penalty", (double)choice->frequency_penalty,
                             "-2 .. 2");
    return STATUS_OK;
}

static enum status check_counts(const Kvferry__V1__SamplingParams *message,
                                const struct checker *checker)
{
    if (message->max_tokens_presence_case ==
            KVFERRY__V1__SAMPLING_PARAMS__MAX_TOKENS_PRESENCE_MAX_TOKENS &&
        message->max_tokens == 0)
        return refuse_number(checker, "max_tokens", 0, "at least 1");
    if (message->logprobs > CHOICE_LOGPROBS_MAX)
        return refuse_number(checker, "logprobs", message->logprobs, "0 .. 20");
    if (message->n_stop > STOP_STRINGS_MAX)
        return refuse_number(checker, "stop", (double)message->n_stop, "at most 16 strings");
    if (message->n_stop_token_ids > STOP_IDS_MAX)
        return refuse_number(checker, "stop_token_ids", (double)message->n_stop_token_ids,
                             "at most 16 ids");
    return STATUS_OK;
}

static enum status take_stops(const Kvferry__V1__SamplingParams *message,
                              const struct checker *checker, struct stop_strings *stops_out)
{
    for (size_t i = 0; i < message->n_stop; i++) {
        size_t bytes = strlen(message->stop[i]);
        char field[32];
        char value[32];
        snprintf(field, sizeof field, "stop[%zu]", i);
        snprintf(value, sizeof value, "of %zu bytes", bytes);
        if (bytes < 1 || bytes > STOP_STRING_BYTES_MAX)
            return refuse(checker, field, value, "of 1 .. 256 bytes");
        stop_strings_add(stops_out, message->stop[i], bytes);
    }
    return STATUS_OK;
}

static enum status take_stop_ids(const Kvferry__V1__SamplingParams *message, uint32_t vocabulary,
                                 const struct checker *checker, struct sampling_choice *choice)
{
    for (size_t i = 0; i < message->n_stop_token_ids; i++) {
        char field[40];
        char wanted[48];
        snprintf(field, sizeof field, "stop_token_ids[%zu]", i);
        snprintf(wanted, sizeof wanted, "below the vocabulary, %" PRIu32, vocabulary);
        if (message->stop_token_ids[i] >= vocabulary)
            return refuse_number(checker, field, message->stop_token_ids[i], wanted);
        choice->stop_ids[choice->n_stop_ids++] = message->stop_token_ids[i];
    }
    return STATUS_OK;
}

#define IS_SET(field, FIELD)                                                                       \
    (message->field##_presence_case == KVFERRY__V1__SAMPLING_PARAMS__##FIELD##_PRESENCE_##FIELD)

static void take_given(const Kvferry__V1__SamplingParams *message, struct sampling_choice *choice)
{
    if (IS_SET(max_tokens, MAX_TOKENS))
        choice->max_tokens = message->max_tokens;
    if (IS_SET(temperature, TEMPERATURE))
        choice->temperature = message->temperature;
    if (IS_SET(top_k, TOP_K))
        choice->top_k = message->top_k;
    if (IS_SET(top_p, TOP_P))
        choice->top_p = message->top_p;
    if (IS_SET(repetition_penalty, REPETITION_PENALTY))
        choice->repetition_penalty = message->repetition_penalty;
    choice->has_seed = IS_SET(seed, SEED);
    if (choice->has_seed)
        choice->seed = message->seed;
    choice->min_p = message->min_p;
    choice->presence_penalty = message->presence_penalty;
    choice->frequency_penalty = message->frequency_penalty;
    choice->n_logprobs = message->logprobs;
    choice->ignore_eos = message->ignore_eos;
}

enum status sampling_choice_make(const Kvferry__V1__SamplingParams *message,
                                 const struct generation_defaults *defaults, uint32_t vocabulary,
                                 const char *prefix, struct sampling_choice *choice_out,
                                 struct stop_strings *stops_out, struct rpc_error *error)
{
    struct checker checker = {prefix, error};
    *choice_out = (struct sampling_choice){
        .temperature = defaults->temperature,
        .top_k = defaults->top_k,
        .top_p = defaults->top_p,
        .repetition_penalty = defaults->repetition_penalty,
    };
    stops_out->n = 0;
    if (!message)
        return STATUS_OK;
    TRY(check_counts(message, &checker));
    take_given(message, choice_out);
    TRY(check_floats(choice_out, &checker));
    TRY(take_stops(message, &checker, stops_out));
    return take_stop_ids(message, vocabulary, &checker, choice_out);
}

enum status sampling_choice_fit(struct sampling_choice *choice, uint32_t prompt_tokens,
                                uint32_t context_tokens, struct rpc_error *error)
{
    uint64_t wanted = (uint64_t)prompt_tokens + (choice->max_tokens ? choice->max_tokens : 1);
    if (wanted > context_tokens) {
        char value[32];
        snprintf(value, sizeof value, "%" PRIu64, wanted);
        rpc_error_set(error, STATUS_PROMPT_TOO_LONG, "prompt", value,
                      "prompt of %" PRIu32 " tokens and max_tokens %" PRIu32
                      " need a context of %" PRIu64 "; the model has %" PRIu32,
                      prompt_tokens, choice->max_tokens ? choice->max_tokens : 1, wanted,
                      context_tokens);
        return STATUS_PROMPT_TOO_LONG;
    }
    uint32_t rest = context_tokens - prompt_tokens;
    if (choice->max_tokens == 0)
        choice->max_tokens = rest < MAX_TOKENS_DEFAULT ? rest : MAX_TOKENS_DEFAULT;
    return STATUS_OK;
}

#define SET(field, FIELD, value)                                                                   \
    message_out->field##_presence_case = KVFERRY__V1__SAMPLING_PARAMS__##FIELD##_PRESENCE_##FIELD; \
    message_out->field = (value);

void sampling_choice_encode(const struct sampling_choice *choice,
                            Kvferry__V1__SamplingParams *message_out)
{
    kvferry__v1__sampling_params__init(message_out);
    SET(max_tokens, MAX_TOKENS, choice->max_tokens)
    SET(temperature, TEMPERATURE, choice->temperature)
    SET(top_k, TOP_K, choice->top_k)
    SET(top_p, TOP_P, choice->top_p)
    SET(repetition_penalty, REPETITION_PENALTY, choice->repetition_penalty)
    SET(seed, SEED, choice->seed)
    message_out->min_p = choice->min_p;
    message_out->presence_penalty = choice->presence_penalty;
    message_out->frequency_penalty = choice->frequency_penalty;
    message_out->logprobs = choice->n_logprobs;
    message_out->ignore_eos = choice->ignore_eos;
    /* Only read when packed. */
    union {
        const uint32_t *in;
        uint32_t *out;
    } ids = {.in = choice->stop_ids};
    message_out->stop_token_ids = ids.out;
    message_out->n_stop_token_ids = choice->n_stop_ids;
}
