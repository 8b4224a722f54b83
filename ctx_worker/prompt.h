/*
 * prompt - a prefill request in the engine: checked, and copied into one allocation.
 *
 * Thread: any makes it; then it has one owner at a time.
 */
#pragma once

#include "ctx_worker/ctx_options.h"
#include "ctx_worker/ctx_request.h"

struct prompt {
    struct engine_request request; /* the first: what a request_queue knows of it */
    struct transfer_id transfer_id;
    uint64_t caller;
    uint64_t caller_incarnation;
    uint32_t held_tokens;
    uint32_t n_ranked; /* of a beam search: first tokens that it tells; else 0 */
    bool takes_backlog;
    uint64_t reader_step_ns;
    uint64_t tell_ns; /* no backlog before */
};

static inline struct prompt *prompt_of(struct engine_request *request)
{
    return (struct prompt *)request;
}

/* INVALID_ARGUMENT, PROMPT_TOO_LONG, STALE_PEER: error gets a sentence with field, value and limit.
 * NO_MEMORY. */
MUST_CHECK enum status prompt_create(const struct ctx_engine_options *options, void *stream,
                                     const struct ctx_prefill_request *request, struct error *error,
                                     struct prompt **prompt_out);
void prompt_destroy(struct prompt *prompt); /* NULL is fine */
