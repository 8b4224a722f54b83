/*
 * prompt - a prefill request as the engine keeps it: checked, and copied into one allocation.
 *
 * Thread: made on any, then owned by one at a time.
 */
#pragma once

#include "ctx_worker/ctx_engine.h"

struct prompt {
    void *stream;
    char request_id[CTX_REQUEST_ID_MAX + 1];
    uint64_t request_number;
    struct transfer_id transfer_id;
    struct sampling_params sampling;
    uint8_t salt[CTX_SALT_MAX];
    size_t salt_bytes;
    uint64_t caller;
    uint64_t caller_incarnation;
    uint64_t deadline_ns;
    uint64_t arrived_ns; /* when the engine took it */
    uint32_t held_tokens;
    uint32_t n_tokens;
    uint32_t token_ids[];
};

/* INVALID_ARGUMENT, PROMPT_TOO_LONG, STALE_PEER: error gets a sentence with field, value and limit.
 * NO_MEMORY. */
MUST_CHECK enum status prompt_create(const struct ctx_engine_options *options, void *stream,
                                     const struct ctx_prefill_request *request, struct error *error,
                                     struct prompt **prompt_out);
void prompt_destroy(struct prompt *prompt); /* NULL is fine */
