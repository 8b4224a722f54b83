/*
 * gen_options - the options of a generation worker's engine.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "engine/constraint_desk.h"
#include "engine/encoder_line.h"
#include "kvcache/kv_manager.h"
#include "kvtier/kv_tier.h"
#include "kvtransfer/kv_receiver.h"
#include "model/forward/forward.h"
#include "schedule/schedule.h"
#include "worker_common/drafter.h"

#define GEN_EOS_IDS_MAX 256u

struct gen_engine_options {
    const char *name; /* for logs and timing; borrowed */
    uint64_t incarnation;
    struct prefix_key prefix_key;
    /* Borrowed until destroy. */
    const struct model *model;
    struct forward *
        forward; /* warmed up, pool attached, for batch_tokens + sequences_max tokens of sequences_max */
    struct device *device; /* where the pool is; its compute queue is this engine's */
    struct block_pool *pool;
    struct kv_tier *tier;         /* behind the prefix cache; NULL: none */
    struct constraint_desk *desk; /* NULL: none, and constraints are refused */
    /* Created with transfers_max >= prefills_max, blocks_max >= blocks of context_tokens. */
    struct kv_receiver *receiver;
    struct geometry geometry;
    enum kv_manager_choice kv_manager;
    uint32_t vocabulary;
    uint32_t context_tokens; /* prompt plus generated */
    uint32_t n_eos_ids;
    uint32_t eos_ids[GEN_EOS_IDS_MAX];
    uint32_t chunk_tokens;   /* of one local prompt in a step at most; a multiple of block_tokens */
    uint64_t step_target_ns; /* schedule.h */
    /* Of all local prompts in a step, >= chunk_tokens. A step has room for one more token of each sequence, which prompts use
     * while fewer sequences decode. */
    uint32_t batch_tokens;
    uint32_t sequences_max;
    uint32_t queue_max;
    enum schedule_policy capacity_policy;
    bool drafts;              /* draft.h */
    struct drafter *drafter;  /* which guesses in place of draft_find; NULL: none. Borrowed */
    uint32_t headroom_blocks; /* schedule.h, as the next */
    uint32_t priority_aging_ms;
    uint32_t streams_max; /* >= queue_max + sequences_max */
    uint32_t prefills_max;
    uint32_t events_max;
    bool local_prefill;                /* may compute a prompt when the hand-over failed */
    uint32_t local_prefill_max_tokens; /* up to so many unknown tokens are never handed over */
    bool prefix_cache;
    uint32_t snapshot_tokens; /* kv_manager.h */
    struct encoder_line line; /* text_max 0: the model has no encoder */
    uint32_t
        kv_events_max; /* of the cache, kept for those who watch it; 0: none (cache_events.h) */
    bool kv_scrub;     /* tokens of events are overwritten, too */
    uint64_t restore_limit_ns; /* longest wait for blocks of the tier */
    uint64_t queue_limit_ns;
    uint64_t context_limit_ns;     /* timeout of the next event of a context worker, or of ... */
    uint32_t context_limit_tokens; /* ... so many more tokens of the prompt announced */
    uint64_t
        context_limit_max_ns;   /* the most that a context worker gets when it reports a backlog */
    uint64_t transfer_limit_ns; /* for announced blocks to arrive: this, plus for each MiB ... */
    uint64_t transfer_limit_mib_ns;
    uint64_t commit_limit_ns; /* fixed: a commit waits for no step (ctx_worker/held_transfers.h) */
};
