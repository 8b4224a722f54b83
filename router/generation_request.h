/*
 * generation_request - judges a GenerateRequest field by field, and copies it.
 *
 * Thread: any; no state.
 */
#pragma once

#include "process/process_state.h"
#include "router/generation.h"

/* What requests are judged by. */
struct request_limits {
    const char *model_name;
    const struct generation_defaults *defaults;
    struct model_card card; /* vocabulary, context_tokens */
    size_t text_bytes_max;
    int32_t priority_max; /* of a call without a pass */
};

/* Copies message into generation; the seed is drawn where it is left open, the request_id may be "".
 * INVALID_ARGUMENT, MODEL_NOT_FOUND, NOT_ALLOWED, PROMPT_TOO_LONG, NO_MEMORY. */
MUST_CHECK enum status generation_take(struct generation *generation,
                                       const Kvferry__V1__GenerateRequest *message,
                                       const struct request_limits *limits,
                                       struct rpc_error *error);

/* A prompt given as text becomes tokens; then its length is judged. May take milliseconds.
 * INVALID_ARGUMENT, PROMPT_TOO_LONG, NO_MEMORY; CANCELLED, TIMED_OUT and how else the call ended meanwhile. */
MUST_CHECK enum status generation_tokenize(struct generation *generation,
                                           const struct tokenizer *tokenizer,
                                           uint32_t context_tokens, struct rpc_error *error);

/* How a request stands before it is judged: a priority that it may not have counts as none. message NULL: it has none.
 * pass NULL: there are no tenants. */
struct standing request_standing(const struct tenant_pass *pass,
                                 const Kvferry__V1__GenerateRequest *message, int32_t priority_max);

/* MODEL_NOT_FOUND. An empty name is the one model. */
MUST_CHECK enum status request_check_model(const char *model, const char *field,
                                           const char *model_name, struct rpc_error *error);
