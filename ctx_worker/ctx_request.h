/*
 * ctx_request - a prefill request as it comes to a context worker's engine; everything borrowed.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "engine/engine_request.h"
#include "kvtransfer/kv_sender.h"

struct ctx_prefill_request {
    struct engine_request_input input;
    struct transfer_id transfer_id;
    uint32_t held_tokens; /* leading tokens whose KV the caller has: a multiple of block_tokens */
    uint64_t caller;      /* caller.h: its share is bounded */
    uint64_t caller_incarnation;
    uint64_t callee_incarnation; /* must be this worker's */
    bool takes_backlog;          /* knows EVENT_BACKLOG */
    uint64_t
        reader_step_ns; /* of its engine, which fetches and commits between steps; 0: unknown */
};
