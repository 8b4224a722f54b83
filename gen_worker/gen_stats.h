/*
 * gen_stats - the figures of a generation worker's engine.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "base/status.h"
#include "engine/prefix_tier.h"
#include "gen_worker/gen_place.h"
#include "kvcache/block_pool.h"

struct gen_engine_stats {
    uint32_t room; /* requests that the engine would accept now, to run or to wait */
    uint32_t queued, reserved, fetching, committing, local_prefill, decoding;
    uint32_t paused;                /* admitted before, and waiting for blocks again */
    uint32_t quarantined_transfers; /* closed, not yet quiet */
    uint64_t waiting_tokens;        /* of the prompts that are queued */
    uint32_t prefills; /* prompts that are computed now, here or on a context worker, */
    uint64_t prefill_tokens, prefill_done_tokens; /* their tokens, and those of them with KV */
    uint32_t blocks_unowned;                      /* block_owners.h */
    uint32_t blocks[BLOCK_STATES];
    uint32_t n_blocks;
    bool is_draining;
    uint64_t requests_finished, requests_ok;
    uint64_t generated_tokens;
    uint64_t draft_tokens, draft_tokens_accepted; /* guessed; of these, kept */
    uint64_t pauses;       /* by the schedule, to free blocks for older ones */
    uint64_t tokens_again; /* computed or fetched once more, after a pause */
    uint64_t rows_fetched; /* draws_n_fetched */
    uint64_t rows_not_finite;
    uint64_t prompt_tokens_computed, prompt_tokens_cached, prompt_tokens_remote;
    uint64_t prefix_query_tokens;
    struct prefix_tier_figures tier;
    uint64_t prefix_lookups;       /* for requests that wait for admission */
    uint64_t kv_bytes_received;    /* of transfers, verified or not */
    uint64_t kv_tokens_received;   /* of committed transfers */
    uint64_t kv_tokens_recomputed; /* prompt tokens computed here after a failed hand-over */
    uint64_t handovers_started, handovers_committed, handovers_failed, handovers_fell_back;
    uint64_t handovers_failed_by[STATUS_COUNT];
    uint64_t prompts[GEN_PLACES]; /* computed, by where */
    uint64_t steps, steps_decode, blocks_evicted;
    uint32_t batch_sequences;  /* decodes in the last step that computed */
    uint64_t last_progress_ns; /* of the last step that computed or had nothing to compute */
};
