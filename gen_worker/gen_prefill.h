/*
 * gen_prefill - what a generation worker asks of a context worker, and hears from it.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "base/log/request_origin.h"
#include "engine/backlog.h"
#include "engine/engine_request.h"
#include "kvtransfer/transport/transport.h"
#include "model/draws.h"
#include "sampling_params/prompt_scores.h"

struct gen_prefill_request {
    struct engine_request_input input; /* the request's: standing as the router told it */
    const struct request_origin *origin;
    struct transfer_id transfer_id;
    uint32_t held_tokens;
    uint64_t step_ns; /* the time of this worker's steps; 0: there was none yet */
};

enum gen_prefill_event_kind {
    GEN_PREFILL_BACKLOG,
    GEN_PREFILL_ACCEPTED,
    GEN_PREFILL_READY,
    GEN_PREFILL_SCORES,
    GEN_PREFILL_FIRST_TOKEN,
    GEN_PREFILL_SEALED
};

/* An event of a context worker as it came over the wire: every field is checked before its use. */
struct gen_prefill_event {
    enum gen_prefill_event_kind kind;
    union {
        struct backlog backlog;
        struct {
            uint32_t n_blocks;
            uint32_t block_tokens;
        } accepted;
        struct {
            uint32_t first_block;
            uint32_t n_blocks;
            const uint32_t *block_ids; /* [n_blocks]; copied */
            const uint32_t *digests;   /* [n_blocks], or NULL; copied */
        } ready;
        struct prompt_scores scores; /* its array is copied */
        struct {
            uint32_t token_id;
            bool has_logprobs;
            struct token_logprobs logprobs;
        } first_token;
        struct {
            uint32_t n_tokens;
            uint32_t cached_tokens;
            uint64_t queue_us, compute_us;
        } sealed;
    };
};
