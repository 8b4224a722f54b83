/*
 * gen_prefill - what a generation worker asks of a context worker. The answers are in engine/prefill_event.h.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "base/log/request_origin.h"
#include "engine/engine_request.h"
#include "kvtransfer/transport/transport.h"

struct gen_prefill_request {
    struct engine_request_input input; /* the request's: standing as the router told it */
    const struct request_origin *origin;
    struct transfer_id transfer_id;
    uint32_t held_tokens;
    uint64_t step_ns; /* the time of this worker's steps; 0: there was none yet */
};
