#include "router/generation_request.h"

#include "base/random.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum status refuse(struct rpc_error *error, enum status status, const char *prefix,
                          const char *field, const char *value, const char *what)
{
    char path[96];
    snprintf(path, sizeof path, "%s%s", prefix, field);
    rpc_error_set(error, status, path, value, "%s %s", path, what);
    return status;
}

enum status request_check_model(const char *model, const char *prefix, const char *field,
                                const char *model_name, struct rpc_error *error)
{
    char what[256];
    if (!model[0] || strcmp(model, model_name) == 0)
        return STATUS_OK;
    snprintf(what, sizeof what, "\"%.80s\" is not served here; \"%.100s\" is", model, model_name);
    return refuse(error, STATUS_MODEL_NOT_FOUND, prefix, field, model, what);
}

static enum status take_request_id(struct generation *generation, const char *id,
                                   const char *prefix, struct rpc_error *error)
{
    size_t bytes = strlen(id);
    char what[96];
    if (bytes == 0) {
        uint64_t bits[2];
        if (random_secret(bits, sizeof bits, NULL) != STATUS_OK)
            return refuse(error, STATUS_IO_FAILED, prefix, "request_id", NULL, "cannot be drawn");
        snprintf(generation->request_id, sizeof generation->request_id, "%016" PRIx64 "%016" PRIx64,
                 bits[0], bits[1]);
        return STATUS_OK;
    }
    if (bytes > REQUEST_ID_MAX) {
        snprintf(what, sizeof what, "has %zu bytes; at most %u are taken", bytes, REQUEST_ID_MAX);
        return refuse(error, STATUS_INVALID_ARGUMENT, prefix, "request_id", NULL, what);
    }
    for (size_t i = 0; i < bytes; i++) {
        if (id[i] >= ' ' && id[i] <= '~')
            continue;
        snprintf(what, sizeof what, "has byte 0x%02x at %zu; it must be printable ASCII",
                 (unsigned)(unsigned char)id[i], i);
        return refuse(error, STATUS_INVALID_ARGUMENT, prefix, "request_id", NULL, what);
    }
    memcpy(generation->request_id, id, bytes + 1);
    return STATUS_OK;
}

static enum status take_salt(struct generation *generation, const char *salt, const char *prefix,
                             struct rpc_error *error)
{
    size_t bytes = strlen(salt);
    char what[64];
    snprintf(what, sizeof what, "has %zu bytes; at most %u are taken", bytes, CACHE_SALT_MAX);
    if (bytes > CACHE_SALT_MAX)
        return refuse(error, STATUS_INVALID_ARGUMENT, prefix, "cache_salt", NULL, what);
    memcpy(generation->cache_salt, salt, bytes + 1);
    return STATUS_OK;
}

static enum status take_text(struct generation *generation, const ProtobufCBinaryData *text,
                             const char *prefix, const struct request_limits *limits,
                             struct rpc_error *error)
{
    size_t bytes = text->len;
    char what[80];
    if (bytes == 0)
        return refuse(error, STATUS_INVALID_ARGUMENT, prefix, "text", "",
                      "is empty: there is nothing to go on from");
    snprintf(what, sizeof what, "has %zu bytes; at most %zu are taken", bytes,
             limits->text_bytes_max);
    if (bytes > limits->text_bytes_max)
        return refuse(error, STATUS_PROMPT_TOO_LONG, prefix, "text", NULL, what);
    generation->text = malloc(bytes);
    if (!generation->text)
        return refuse(error, STATUS_NO_MEMORY, prefix, "text", NULL, "has no room");
    memcpy(generation->text, text->data, bytes);
    generation->text_bytes = bytes;
    return STATUS_OK;
}

static enum status refuse_length(struct rpc_error *error, const char *prefix, size_t n,
                                 uint32_t context_tokens)
{
    char what[128];
    char value[24];
    snprintf(value, sizeof value, "%zu", n);
    snprintf(what, sizeof what, "has %zu tokens; the model's context of %u must hold one more", n,
             context_tokens);
    return refuse(error, STATUS_PROMPT_TOO_LONG, prefix, "prompt", value, what);
}

static enum status take_ids(struct generation *generation, const Kvferry__V1__TokenIds *message,
                            const char *prefix, const struct request_limits *limits,
                            struct rpc_error *error)
{
    char field[48];
    char value[24];
    char what[80];
    if (!message || message->n_ids == 0)
        return refuse(error, STATUS_INVALID_ARGUMENT, prefix, "token_ids", "",
                      "is empty: there is nothing to go on from");
    if (message->n_ids >= limits->card.context_tokens)
        return refuse_length(error, prefix, message->n_ids, limits->card.context_tokens);
    for (size_t i = 0; i < message->n_ids; i++) {
        if (message->ids[i] < limits->card.vocabulary)
            continue;
        snprintf(field, sizeof field, "token_ids.ids[%zu]", i);
        snprintf(value, sizeof value, "%" PRIu32, message->ids[i]);
        snprintf(what, sizeof what, "is %" PRIu32 "; it must be below the vocabulary, %" PRIu32,
                 message->ids[i], limits->card.vocabulary);
        return refuse(error, STATUS_INVALID_ARGUMENT, prefix, field, value, what);
    }
    generation->token_ids = malloc(message->n_ids * sizeof *generation->token_ids);
    if (!generation->token_ids)
        return refuse(error, STATUS_NO_MEMORY, prefix, "token_ids", NULL, "has no room");
    memcpy(generation->token_ids, message->ids, message->n_ids * sizeof *generation->token_ids);
    generation->n_tokens = (uint32_t)message->n_ids;
    return STATUS_OK;
}

static enum status take_prompt(struct generation *generation,
                               const Kvferry__V1__GenerateRequest *message, const char *prefix,
                               const struct request_limits *limits, struct rpc_error *error)
{
    switch (message->prompt_case) {
    case KVFERRY__V1__GENERATE_REQUEST__PROMPT_TEXT:
        return take_text(generation, &message->text, prefix, limits, error);
    case KVFERRY__V1__GENERATE_REQUEST__PROMPT_TOKEN_IDS:
        return take_ids(generation, message->token_ids, prefix, limits, error);
    default:
        return refuse(error, STATUS_INVALID_ARGUMENT, prefix, "prompt", "",
                      "is absent: give text or token_ids");
    }
}

enum status generation_take(struct generation *generation,
                            const Kvferry__V1__GenerateRequest *message, const char *prefix,
                            const struct request_limits *limits, struct rpc_error *error)
{
    TRY(request_check_model(message->model, prefix, "model", limits->model_name, error));
    TRY(take_request_id(generation, message->request_id, prefix, error));
    TRY(take_salt(generation, message->cache_salt, prefix, error));
    TRY(sampling_choice_make(message->sampling, limits->defaults, limits->card.vocabulary, prefix,
                             &generation->sampling, &generation->stops, error));
    TRY(take_prompt(generation, message, prefix, limits, error));
    generation->return_timing = message->return_timing;
    if (generation->sampling.has_seed)
        return STATUS_OK;
    uint64_t *seed = &generation->sampling.params.seed;
    if (random_secret(seed, sizeof *seed, NULL) != STATUS_OK)
        return refuse(error, STATUS_IO_FAILED, prefix, "sampling.seed", NULL, "cannot be drawn");
    return STATUS_OK;
}

/* The tokenizer's sentences begin with "text". */
static enum status refuse_text(struct rpc_error *error, enum status status, const char *prefix,
                               const char *sentence)
{
    char path[96];
    snprintf(path, sizeof path, "%stext", prefix);
    rpc_error_set(error, status, path, NULL, "%s%s", prefix, sentence);
    return status;
}

static enum status tokenize_text(struct generation *generation, const struct tokenizer *tokenizer,
                                 uint32_t context_tokens, const char *prefix,
                                 struct rpc_error *error)
{
    generation->token_ids = malloc(context_tokens * sizeof *generation->token_ids);
    if (!generation->token_ids)
        return refuse(error, STATUS_NO_MEMORY, prefix, "text", NULL, "has no room");
    struct encode_input input = {
        .text = generation->text,
        .text_bytes = generation->text_bytes,
        .add_special = true,
        .parse_special = true,
    };
    struct token_buffer buffer = {.ids = generation->token_ids, .ids_max = context_tokens};
    struct error reason = {0};
    enum status status = tokenizer_encode(tokenizer, &input, &buffer, &reason);
    free(generation->text);
    generation->text = NULL;
    if (status == STATUS_PROMPT_TOO_LONG)
        return refuse_length(error, prefix, buffer.n_ids, context_tokens);
    if (status != STATUS_OK)
        return refuse_text(error, status, prefix,
                           reason.text[0] ? reason.text : status_text(status));
    if (buffer.n_ids == 0)
        return refuse(error, STATUS_INVALID_ARGUMENT, prefix, "text", NULL, "makes no tokens");
    generation->n_tokens = (uint32_t)buffer.n_ids;
    return STATUS_OK;
}

enum status generation_tokenize(struct generation *generation, const struct tokenizer *tokenizer,
                                uint32_t context_tokens, const char *prefix,
                                struct rpc_error *error)
{
    if (generation->text)
        TRY(tokenize_text(generation, tokenizer, context_tokens, prefix, error));
    return sampling_choice_fit(&generation->sampling, generation->n_tokens, context_tokens, error);
}
