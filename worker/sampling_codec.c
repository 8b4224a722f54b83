#include "worker/sampling_codec.h"

#include <assert.h>
#include <string.h>

static enum status absent(const char *field, struct error *error)
{
    return error_set(error, STATUS_INVALID_ARGUMENT,
                     "sampling.%s is absent; inner requests are complete", field);
}

#define PRESENT(field, FIELD)                                                                      \
    if (message->field##_presence_case !=                                                          \
        KVFERRY__V1__SAMPLING_PARAMS__##FIELD##_PRESENCE_##FIELD)                                  \
        return absent(#field, error);

enum status sampling_decode(const Kvferry__V1__SamplingParams *message, uint32_t vocabulary,
                            struct sampling_params *params_out, struct error *error)
{
    if (!message)
        return error_set(error, STATUS_INVALID_ARGUMENT, "sampling is absent");
    PRESENT(max_tokens, MAX_TOKENS)
    PRESENT(temperature, TEMPERATURE)
    PRESENT(top_k, TOP_K)
    PRESENT(top_p, TOP_P)
    PRESENT(repetition_penalty, REPETITION_PENALTY)
    PRESENT(seed, SEED)
    if (message->n_stop_token_ids > STOP_TOKEN_IDS_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "sampling.stop_token_ids has %zu entries; at most %u are taken",
                         message->n_stop_token_ids, STOP_TOKEN_IDS_MAX);

    struct sampling_params params = {
        .temperature = message->temperature,
        .top_k = message->top_k,
        .top_p = message->top_p,
        .min_p = message->min_p,
        .repetition_penalty = message->repetition_penalty,
        .presence_penalty = message->presence_penalty,
        .frequency_penalty = message->frequency_penalty,
        .seed = message->seed,
        .max_tokens = message->max_tokens,
        .n_logprobs = message->logprobs,
        .n_stop_token_ids = (uint32_t)message->n_stop_token_ids,
        .ignore_eos = message->ignore_eos,
    };
    if (message->n_stop_token_ids > 0)
        memcpy(params.stop_token_ids, message->stop_token_ids,
               message->n_stop_token_ids * sizeof *params.stop_token_ids);
    TRY(sampling_check(&params, vocabulary, error));
    *params_out = params;
    return STATUS_OK;
}

#define SET(field, FIELD, value)                                                                   \
    message_out->field##_presence_case = KVFERRY__V1__SAMPLING_PARAMS__##FIELD##_PRESENCE_##FIELD; \
    message_out->field = (value);

void sampling_encode(const struct sampling_params *params, Kvferry__V1__SamplingParams *message_out)
{
    kvferry__v1__sampling_params__init(message_out);
    SET(max_tokens, MAX_TOKENS, params->max_tokens)
    SET(temperature, TEMPERATURE, params->temperature)
    SET(top_k, TOP_K, params->top_k)
    SET(top_p, TOP_P, params->top_p)
    SET(repetition_penalty, REPETITION_PENALTY, params->repetition_penalty)
    SET(seed, SEED, params->seed)
    message_out->min_p = params->min_p;
    message_out->presence_penalty = params->presence_penalty;
    message_out->frequency_penalty = params->frequency_penalty;
    message_out->logprobs = params->n_logprobs;
    message_out->ignore_eos = params->ignore_eos;
    /* Only read when packed. */
    union {
        const uint32_t *in;
        uint32_t *out;
    } ids = {.in = params->stop_token_ids};
    message_out->stop_token_ids = ids.out;
    message_out->n_stop_token_ids = params->n_stop_token_ids;
}

void token_logprobs_encode(const struct token_logprobs *logprobs,
                           struct token_logprobs_message *message_out)
{
    assert(logprobs->n_top <= LOGPROBS_MAX);
    kvferry__v1__token_logprobs__init(&message_out->message);
    message_out->message.logprob = logprobs->logprob;
    for (uint32_t i = 0; i < logprobs->n_top; i++) {
        kvferry__v1__token_logprob__init(&message_out->top[i]);
        message_out->top[i].token_id = logprobs->top_ids[i];
        message_out->top[i].logprob = logprobs->top_logprobs[i];
        message_out->top_list[i] = &message_out->top[i];
    }
    message_out->message.n_top = logprobs->n_top;
    message_out->message.top = message_out->top_list;
}

enum status token_logprobs_decode(const Kvferry__V1__TokenLogprobs *message,
                                  struct token_logprobs *logprobs_out)
{
    if (message->n_top > LOGPROBS_MAX)
        return STATUS_INVALID_ARGUMENT;
    *logprobs_out = (struct token_logprobs){.logprob = message->logprob,
                                            .n_top = (uint32_t)message->n_top};
    for (uint32_t i = 0; i < logprobs_out->n_top; i++) {
        logprobs_out->top_ids[i] = message->top[i]->token_id;
        logprobs_out->top_logprobs[i] = message->top[i]->logprob;
    }
    return STATUS_OK;
}
