/*
 * ctx_options - the options of a context worker's engine, and their check.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "base/status.h"
#include "engine/constraint_desk.h"
#include "engine/encoder_line.h"
#include "kvcache/kv_manager.h"
#include "kvtier/kv_tier.h"
#include "kvtransfer/kv_sender.h"
#include "model/forward/forward.h"

struct ctx_engine_options {
    const char *name; /* for logs: the worker's address; borrowed */
    uint64_t incarnation;
    struct prefix_key prefix_key;
    /* Borrowed until destroy. geometry is the pool's: block_bytes and block_tokens agree. */
    const struct model *model;
    struct forward *
        forward; /* warmed up, pool attached, for ctx_options_step_tokens and slots_max sequences */
    struct device *device; /* where the pool is; its compute queue is this engine's */
    struct block_pool *pool;
    struct kv_tier *tier;         /* behind the prefix cache; NULL: none */
    struct constraint_desk *desk; /* NULL: none, and constraints are refused */
    struct kv_sender *sender; /* created with transfers_max >= slots_max, blocks_max >= blocks of
                                 context_tokens */
    struct geometry geometry;
    enum kv_manager_choice kv_manager;
    uint32_t vocabulary;
    uint32_t n_eos_ids; /* of the model, up to PENALTIES_ENDS_MAX; borrowed until destroy */
    const uint32_t *eos_ids;
    uint32_t context_tokens; /* longest prompt */
    uint32_t chunk_tokens;   /* of one prompt in a step at most; a multiple of block_tokens */
    uint64_t step_target_ns; /* schedule.h */
    uint32_t
        batch_tokens; /* of all prompts in a step; >= chunk_tokens; one more where that is one block */
    uint32_t slots_max;
    uint32_t queue_max;
    uint32_t streams_max; /* >= queue_max + slots_max */
    uint32_t calls_max;
    uint32_t caller_share;       /* percent of slots, blocks and queue that one caller may have */
    uint32_t priority_aging_ms;  /* schedule.h */
    uint64_t queue_limit_ns;     /* 0: a prompt that cannot start at once is refused */
    uint64_t lease_limit_ns;     /* from sealed to commit: this, some steps of the reader, ... */
    uint64_t lease_limit_mib_ns; /* ... and for each MiB that crosses this */
    bool kv_digest;              /* ready events carry a CRC32C a block */
    bool prefix_cache;
    uint32_t snapshot_tokens; /* kv_manager.h */
    struct encoder_line line; /* text_max 0: the model has no encoder */
    uint32_t
        kv_events_max; /* of the cache, kept for those who watch it; 0: none (cache_events.h) */
    bool kv_scrub;     /* tokens of events are overwritten, too */
    uint64_t restore_limit_ns; /* longest wait for blocks of the tier */
};

/* INVALID_ARGUMENT: error names the option, its value and what is wanted. */
MUST_CHECK enum status ctx_options_check(const struct ctx_engine_options *options,
                                         struct error *error);
/* Tokens of a step at most, which the forward pass is made for. */
uint32_t ctx_options_step_tokens(uint32_t batch_tokens, uint32_t block_tokens);
