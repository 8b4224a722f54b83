/*
 * kv_plan - how many blocks a worker's pool has, and what contexts a machine has memory for.
 *
 * Blocks from kv_blocks, else kv_memory, else (auto) what sequences_max whole contexts need, at most
 *
 *     3/4 x (limit / sharers - taken - KV_LOAD_BYTES)      where a cgroup limits memory
 *     1/3 x free / sharers                                 where none does; up to 1/2 where one whole context takes it,
 *                                                          never less than KV_MEMORY_LEAST
 *     device_bytes - taken of it                           where the pool is in memory of a device's own, unless
 *                                                          other processes leave less
 *
 * Cached prefixes have no room of their own: they live in what the batch does not use.
 *
 * Free is what the machine had before the first sharer took anything, but mapped weights, once, and what each process takes:
 * so it is the same for all, whoever comes first. Of what is left when a worker plans it takes half at most: others may have
 * come since. Another service that starts at the same moment counts the same memory, a third of it, too: hence no half.
 *
 * The limit is the lowest of the cgroups above; sharers are the workers that live under it together (serve's). Taken is
 * what this process was seen to have behind its warm-up, activations and what attention keeps for a step among it, and
 * the weights that are mapped; a plan before anything is loaded computes it from the shapes. The quarter that stays is
 * for what grows with a model and its load: an engine's tables and logits, messages under way, page cache of files that
 * are read.
 * The pool is touched before the worker is ready, so that a plan that was too bold fails the start.
 *
 * Thread: any; no state.
 */
#pragma once

#include "kvcache/geometry.h"

#define KV_MEMORY_LEAST (256ull << 20)
/* Computed, not measured: what a process has before its forward pass: gRPC, logs, stacks. */
#define KV_START_BYTES (24ull << 20)
/* What comes behind the warm-up: UCX, tables, what gRPC buffers under load before it refuses, code that is read, and serve's
 * router's part. */
#define KV_LOAD_BYTES (72ull << 20)

struct kv_taken {
    uint64_t mapped_bytes;  /* of weights that are used where their files are mapped */
    uint64_t process_bytes; /* memory that is no file's */
    uint64_t
        device_bytes; /* of a device's own memory: weights, activations, staging, workspace, graphs */
};
/* Measured bytes, rounded up: so that starts that differ by a few pages have the same pool. */
uint64_t kv_plan_round(uint64_t bytes);

struct kv_wishes {
    uint32_t context_tokens;
    uint32_t sequences_max; /* in a batch */
    uint32_t kv_blocks;     /* 0: not said */
    uint64_t kv_memory;     /* bytes; 0: not said */
    uint64_t limit_bytes;   /* of the cgroup; 0: there is none */
    uint64_t room_bytes;    /* that the machine had before the sharers began; 0: not known */
    uint64_t left_bytes;    /* that it has now */
    uint64_t
        device_bytes; /* that this worker may have of its device's own memory; 0: it has none */
    uint64_t
        device_room_bytes; /* that it has of it or could have now: others have the rest; 0: not known */
    uint64_t pool_step_bytes; /* a pool there is so many bytes, or several times as many; 0: any */
    struct kv_taken taken;
    uint32_t n_sharers; /* of the limit; 0 is 1 */
};

enum kv_plan_rule {
    KV_PLAN_AS_TOLD, /* kv_blocks or kv_memory */
    KV_PLAN_BATCH,   /* what sequences_max contexts need */
    KV_PLAN_SHARE,   /* of the limit */
    KV_PLAN_DEVICE,  /* what the worker's part of the device's memory leaves */
    KV_PLAN_ROOM,    /* what others leave of the device's memory, which is less */
    KV_PLAN_FREE,    /* a third of what is free, for all sharers */
    KV_PLAN_CONTEXT, /* one whole context, which is more than that, and at most half */
    KV_PLAN_LEAST,   /* KV_MEMORY_LEAST, which is more than what is free gives */
};
const char *kv_plan_rule_text(enum kv_plan_rule rule);

struct kv_plan {
    uint32_t n_blocks;
    enum kv_plan_rule rule;
    uint64_t free_bytes; /* of the machine, for the pools of all sharers; 0: it has no say */
};

/* INVALID_ARGUMENT: kv_memory is less than a block, or more than can be counted. NO_MEMORY: the limit,
 * or the worker's part of its device, or what others leave of it, has no room for a block, or for the blocks that are asked for.
 * Both with a sentence. */
MUST_CHECK enum status kv_plan_make(const struct geometry *geometry, const struct kv_wishes *wishes,
                                    struct kv_plan *plan_out, struct error *error);

/* What device_memory, or a worker's share, comes to on a device with so much memory: 0 of which is none of its own. */
uint64_t kv_plan_device_bytes(uint64_t memory_bytes, uint64_t device_memory, uint32_t n_sharers);

/* The longest context, whole blocks up to context_tokens, that n_pools workers on one machine, each
 * with a pool of one context, hold in so many bytes. */
uint32_t kv_plan_context_fit(const struct geometry *geometry, uint64_t bytes, uint32_t n_pools,
                             uint32_t context_tokens);
