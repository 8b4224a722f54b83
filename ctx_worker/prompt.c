#include "ctx_worker/prompt.h"

#include "worker/request_number.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static enum status check_text(const struct ctx_prefill_request *request, struct error *error)
{
    size_t id_bytes = request->request_id ? strnlen(request->request_id, CTX_REQUEST_ID_MAX + 1)
                                          : 0;
    if (id_bytes == 0 || id_bytes > CTX_REQUEST_ID_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT, "request_id has %zu bytes, wanted 1 to %u",
                         id_bytes, CTX_REQUEST_ID_MAX);
    if (request->salt_bytes > CTX_SALT_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT, "cache_salt has %zu bytes, at most %u",
                         request->salt_bytes, CTX_SALT_MAX);
    return STATUS_OK;
}

static enum status check_tokens(const struct ctx_engine_options *options,
                                const struct ctx_prefill_request *request, struct error *error)
{
    if (request->n_tokens == 0)
        return error_set(error, STATUS_INVALID_ARGUMENT, "token_ids is empty");
    if (request->n_tokens > options->context_tokens)
        return error_set(error, STATUS_PROMPT_TOO_LONG, "%u prompt tokens, the context holds %u",
                         request->n_tokens, options->context_tokens);
    if (request->held_tokens >= request->n_tokens ||
        request->held_tokens % options->geometry.block_tokens != 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "held_tokens is %u, wanted a multiple of %u under %u",
                         request->held_tokens, options->geometry.block_tokens, request->n_tokens);
    for (uint32_t i = 0; i < request->n_tokens; i++)
        if (request->token_ids[i] >= options->vocabulary)
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "token_ids[%u] is %u, the vocabulary has %u", i, request->token_ids[i],
                             options->vocabulary);
    return STATUS_OK;
}

static enum status check(const struct ctx_engine_options *options,
                         const struct ctx_prefill_request *request, struct error *error)
{
    TRY(check_text(request, error));
    if (request->callee_incarnation != options->incarnation)
        return error_set(error, STATUS_STALE_PEER, "incarnation %" PRIx64 " is not this worker's",
                         request->callee_incarnation);
    TRY(check_tokens(options, request, error));
    return sampling_check(request->sampling, options->vocabulary, error);
}

enum status prompt_create(const struct ctx_engine_options *options, void *stream,
                          const struct ctx_prefill_request *request, struct error *error,
                          struct prompt **prompt_out)
{
    TRY(check(options, request, error));

    size_t token_bytes = request->n_tokens * sizeof request->token_ids[0];
    struct prompt *prompt = calloc(1, sizeof *prompt + token_bytes);
    if (!prompt)
        return error_set(error, STATUS_NO_MEMORY, "no memory for a prompt of %u tokens",
                         request->n_tokens);

    prompt->stream = stream;
    memcpy(prompt->request_id, request->request_id, strlen(request->request_id) + 1);
    prompt->request_number = request_number(prompt->request_id);
    prompt->transfer_id = request->transfer_id;
    prompt->sampling = *request->sampling;
    prompt->salt_bytes = request->salt_bytes;
    if (request->salt_bytes > 0)
        memcpy(prompt->salt, request->salt, request->salt_bytes);
    prompt->caller = request->caller;
    prompt->caller_incarnation = request->caller_incarnation;
    prompt->deadline_ns = request->deadline_ns;
    prompt->held_tokens = request->held_tokens;
    prompt->n_tokens = request->n_tokens;
    memcpy(prompt->token_ids, request->token_ids, token_bytes);
    *prompt_out = prompt;
    return STATUS_OK;
}

void prompt_destroy(struct prompt *prompt)
{
    free(prompt);
}
