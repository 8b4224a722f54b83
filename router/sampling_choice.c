#include "router/sampling_choice.h"

#include "base/utf8.h"
#include "sampling_params/sampling_codec.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static enum status refuse(struct rpc_error *error, const char *field, const char *value,
                          const char *wanted)
{
    char path[96];
    snprintf(path, sizeof path, "sampling.%s", field);
    rpc_error_set(error, STATUS_INVALID_ARGUMENT, path, value, "%s is %s; it must be %s", path,
                  value, wanted);
    return STATUS_INVALID_ARGUMENT;
}

static enum status take_stops(const Kvferry__V1__SamplingParams *message,
                              struct stop_strings *stops_out, struct rpc_error *error)
{
    if (message->n_stop > STOP_STRINGS_MAX) {
        char count[32];
        snprintf(count, sizeof count, "%zu", message->n_stop);
        return refuse(error, "stop", count, "at most 16 strings");
    }
    for (size_t i = 0; i < message->n_stop; i++) {
        const char *text = (const char *)message->stop[i].data;
        size_t bytes = message->stop[i].len;
        char field[32];
        char value[32];
        snprintf(field, sizeof field, "stop[%zu]", i);
        snprintf(value, sizeof value, "of %zu bytes", bytes);
        if (bytes < 1 || bytes > STOP_STRING_BYTES_MAX)
            return refuse(error, field, value, "of 1 .. 256 bytes");
        if (utf8_first_invalid(text, bytes) != bytes)
            return refuse(error, field, value, "UTF-8");
        stop_strings_add(stops_out, text, bytes);
    }
    return STATUS_OK;
}

#define IS_SET(field, FIELD)                                                                       \
    (message->field##_presence_case == KVFERRY__V1__SAMPLING_PARAMS__##FIELD##_PRESENCE_##FIELD)

enum status sampling_choice_make(const Kvferry__V1__SamplingParams *message,
                                 const struct generation_defaults *defaults, uint32_t vocabulary,
                                 struct sampling_choice *choice_out, struct stop_strings *stops_out,
                                 struct rpc_error *error)
{
    struct sampling_fault fault;
    *choice_out = (struct sampling_choice){
        .params = {.temperature = defaults->temperature,
                   .top_k = defaults->top_k,
                   .top_p = defaults->top_p,
                   .min_p = defaults->min_p,
                   .repetition_penalty = defaults->repetition_penalty,
                   .max_tokens = MAX_TOKENS_DEFAULT},
    };
    stops_out->n = 0;
    if (!message)
        return STATUS_OK;
    choice_out->has_seed = IS_SET(seed, SEED);
    choice_out->has_max_tokens = IS_SET(max_tokens, MAX_TOKENS);
    sampling_decode_given(message, &choice_out->params);
    if (sampling_find_fault(&choice_out->params, vocabulary, &fault))
        return refuse(error, fault.field, fault.value, fault.wanted);
    return take_stops(message, stops_out, error);
}

enum status sampling_choice_fit(struct sampling_choice *choice, uint32_t prompt_tokens,
                                uint32_t context_tokens, struct rpc_error *error)
{
    uint32_t least = choice->has_max_tokens ? choice->params.max_tokens : 1;
    uint64_t wanted = (uint64_t)prompt_tokens + least;
    if (wanted > context_tokens) {
        char value[32];
        snprintf(value, sizeof value, "%" PRIu64, wanted);
        rpc_error_set(error, STATUS_PROMPT_TOO_LONG, "prompt", value,
                      "prompt of %" PRIu32 " tokens and max_tokens %" PRIu32
                      " need a context of %" PRIu64 "; the model has %" PRIu32,
                      prompt_tokens, least, wanted, context_tokens);
        return STATUS_PROMPT_TOO_LONG;
    }
    uint32_t rest = context_tokens - prompt_tokens;
    if (!choice->has_max_tokens && choice->params.max_tokens > rest)
        choice->params.max_tokens = rest;
    assert((uint64_t)prompt_tokens + choice->params.max_tokens <= context_tokens);
    return STATUS_OK;
}
