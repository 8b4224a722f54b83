/*
 * ctx_stats - the figures of a context worker's engine.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "engine/prefix_tier.h"
#include "kvcache/block_pool.h"

struct ctx_engine_stats {
    uint32_t room; /* prompts that the engine would accept now, to compute or to wait */
    uint32_t queued, computing, sealed, closing; /* closing: released, not yet quiet */
    uint64_t waiting_tokens; /* tokens not computed yet, of prompts that are queued or computing */
    uint64_t computing_tokens,
        computed_tokens;     /* tokens of prompts that are computing: all, and those with KV */
    uint32_t blocks_unowned; /* block_owners.h */
    uint32_t blocks[BLOCK_STATES];
    uint32_t n_blocks;
    bool is_draining;
    uint64_t requests_finished; /* finish calls, any status */
    uint64_t requests_ok;       /* of these, with OK: the reader committed */
    uint64_t commits_ok, commits_refused;
    uint64_t steps, prompt_tokens_computed, prompt_tokens_cached, prefix_query_tokens;
    struct prefix_tier_figures tier;
    uint64_t blocks_published, blocks_evicted;
    uint64_t rows_not_finite;  /* prompts that ended without a first token */
    uint64_t leases_expired;   /* deadline passed, or no commit came, while blocks were held */
    uint64_t last_progress_ns; /* of the last step that computed or had nothing to compute */
};
