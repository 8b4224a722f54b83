#include "sampling_params/sampling_codec.h"

#include <assert.h>

/* The fields for which absent and zero differ. */
#define PRESENCE_FIELDS(X)                                                                         \
    X(max_tokens, MAX_TOKENS)                                                                      \
    X(temperature, TEMPERATURE)                                                                    \
    X(top_k, TOP_K)                                                                                \
    X(top_p, TOP_P)                                                                                \
    X(min_p, MIN_P)                                                                                \
    X(repetition_penalty, REPETITION_PENALTY)                                                      \
    X(presence_penalty, PRESENCE_PENALTY)                                                          \
    X(frequency_penalty, FREQUENCY_PENALTY)                                                        \
    X(seed, SEED)

void sampling_decode_given(const Kvferry__V1__SamplingParams *message,
                           struct sampling_params *params_inout)
{
#define X(field, FIELD)                                                                            \
    if (message->field##_presence_case ==                                                          \
        KVFERRY__V1__SAMPLING_PARAMS__##FIELD##_PRESENCE_##FIELD)                                  \
        params_inout->field = message->field;
    PRESENCE_FIELDS(X)
#undef X
    params_inout->n_logprobs = message->logprobs;
    params_inout->ignore_eos = message->ignore_eos;
    size_t n = message->n_stop_token_ids;
    params_inout->n_stop_token_ids = n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
    for (size_t i = 0; i < n && i < STOP_TOKEN_IDS_MAX; i++)
        params_inout->stop_token_ids[i] = message->stop_token_ids[i];
}

static const char *absent_field(const Kvferry__V1__SamplingParams *message)
{
#define X(field, FIELD)                                                                            \
    if (message->field##_presence_case !=                                                          \
        KVFERRY__V1__SAMPLING_PARAMS__##FIELD##_PRESENCE_##FIELD)                                  \
        return #field;
    PRESENCE_FIELDS(X)
#undef X
    return NULL;
}

enum status sampling_decode(const Kvferry__V1__SamplingParams *message, uint32_t vocabulary,
                            struct sampling_params *params_out, struct error *error)
{
    struct sampling_params params = {0};
    if (!message)
        return error_set(error, STATUS_INVALID_ARGUMENT, "sampling is absent");
    const char *absent = absent_field(message);
    if (absent)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "sampling.%s is absent; inner requests are complete", absent);
    sampling_decode_given(message, &params);
    TRY(sampling_check(&params, vocabulary, error));
    *params_out = params;
    return STATUS_OK;
}

void sampling_encode(const struct sampling_params *params, Kvferry__V1__SamplingParams *message_out)
{
    kvferry__v1__sampling_params__init(message_out);
#define X(field, FIELD)                                                                            \
    message_out->field##_presence_case = KVFERRY__V1__SAMPLING_PARAMS__##FIELD##_PRESENCE_##FIELD; \
    message_out->field = params->field;
    PRESENCE_FIELDS(X)
#undef X
    message_out->logprobs = params->n_logprobs;
    message_out->ignore_eos = params->ignore_eos;
    /* Packing only reads them. */
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
