/*
 * kv_plan - how many blocks a worker's pool has, and which context length fits into a machine's memory.
 *
 * The number of blocks comes from kv_blocks, else kv_memory, else (auto) it is what sequences_max whole contexts need,
 * at most
 *
 *     3/4 x (limit / sharers - taken - KV_LOAD_BYTES)      where a cgroup limits memory
 *     1/3 x free / sharers                                 without a limit; up to 1/2 if one whole context needs it,
 *                                                          and at least KV_MEMORY_LEAST
 *     device_bytes - taken of it                           if the pool is in a device's own memory, unless
 *                                                          other processes leave less
 *
 * Cached prefixes get no extra blocks: they use those that the batch does not need.
 *
 * "free" is the machine's memory before the first sharer took any, without the mapped weights (once) and without the
 * memory that each process takes: so it is the same for all sharers in any order. A worker takes at most half of the
 * memory that is left when it plans, because other processes may have started since. The fraction is a third, not a
 * half, because another service that starts at the same moment may count on a third of the same memory.
 *
 * "limit" is the lowest of this cgroup and those above; "sharers" are the workers under the same limit (those of
 * serve). "taken" is the measured memory of this process after its warm-up (with activations and the buffers of
 * attention) and the mapped weights; a plan before loading computes it from the shapes. The remaining quarter is for
 * memory that grows with the model and the load: tables and logits of an engine, messages in transit, page cache of
 * files. The tables of the prefix cache and its events, which grow with the pool, are counted with its blocks. The pool is touched before the worker is ready, so that a plan that is too large fails at the start.
 *
 * Thread: any; no state.
 */
#pragma once

#include "kvcache/geometry.h"

#define KV_MEMORY_LEAST (256ull << 20)
/* Computed, not measured: the memory of a process before its forward pass: gRPC, logs, stacks. */
#define KV_START_BYTES (24ull << 20)
/* Memory that is needed after the warm-up: UCX, tables, gRPC's buffers under load, code pages, and this worker's part
 * of serve's router. */
#define KV_LOAD_BYTES (72ull << 20)

struct kv_taken {
    uint64_t mapped_bytes;  /* of weights that are used in place, in their mapped files */
    uint64_t process_bytes; /* memory without a file */
    uint64_t
        device_bytes; /* in a device's own memory: weights, activations, staging, workspace, graphs */
};
/* Measured bytes, rounded up, so that starts that differ by a few pages get the same pool. */
uint64_t kv_plan_round(uint64_t bytes);

struct kv_wishes {
    struct cache_step step; /* its sequences are those of a batch */
    uint32_t kv_blocks;     /* 0: not said */
    uint64_t kv_memory;     /* bytes; 0: not said */
    uint64_t limit_bytes;   /* of the cgroup; 0: no limit */
    uint64_t room_bytes;    /* memory of the machine before the sharers started; 0: not known */
    uint64_t left_bytes;    /* memory of the machine now */
    uint64_t device_bytes;  /* the worker's part of its device's own memory; 0: none */
    uint64_t
        device_room_bytes; /* of these, what it has or could have now: other processes have the rest; 0: not known */
    uint64_t pool_step_bytes; /* the pool there is a multiple of so many bytes; 0: any */
    struct kv_taken taken;
    uint64_t table_bytes;       /* in memory of the host, what is kept of cached blocks: in all, */
    uint64_t block_table_bytes; /* and beside that for each block */
    uint32_t n_sharers;         /* under the limit; 0 is 1 */
};

enum kv_plan_rule {
    KV_PLAN_AS_TOLD, /* kv_blocks or kv_memory */
    KV_PLAN_BATCH,   /* enough for sequences_max contexts */
    KV_PLAN_SHARE,   /* share of the limit */
    KV_PLAN_DEVICE,  /* the rest of the worker's part of the device's memory */
    KV_PLAN_ROOM,    /* the device's memory that others leave, which is less */
    KV_PLAN_FREE,    /* a third of the free memory, for all sharers */
    KV_PLAN_CONTEXT, /* one whole context, which is more than that, but at most half */
    KV_PLAN_LEAST,   /* KV_MEMORY_LEAST, which is more than the free memory gives */
};
const char *kv_plan_rule_text(enum kv_plan_rule rule);

struct kv_plan {
    uint32_t n_blocks;
    enum kv_plan_rule rule;
    uint64_t free_bytes; /* free memory of the machine, for all pools; 0: not used */
};

/* INVALID_ARGUMENT: kv_memory is less than a block, or too large to count. NO_MEMORY: the limit, the worker's part of
 * its device, or what others leave of it, has no room for a block, or for the requested blocks. Both with a sentence. */
MUST_CHECK enum status kv_plan_make(const struct geometry *geometry, const struct kv_wishes *wishes,
                                    struct kv_plan *plan_out, struct error *error);

/* The bytes of device_memory, or of a worker's share, on a device with so much memory; 0: the device has no own
 * memory. */
uint64_t kv_plan_device_bytes(uint64_t memory_bytes, uint64_t device_memory, uint32_t n_sharers);

/* The longest context, in whole blocks up to context_tokens, for which n_pools workers on one
 * machine, each with a pool of one context, have room in so many bytes. */
uint32_t kv_plan_context_fit(const struct geometry *geometry, uint64_t bytes, uint32_t n_pools,
                             uint32_t context_tokens);
