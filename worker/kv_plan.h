/*
 * kv_plan - how many blocks a worker's pool has, and what contexts a machine has memory for.
 *
 * Blocks from kv_blocks, else kv_memory, else (auto) what sequences_max whole contexts need, at most
 *
 *     3/4 x (limit / sharers - KV_PROCESS_BYTES - weights)    where a cgroup limits memory
 *     KV_MEMORY_DEFAULT, but at least one whole context       where none does
 *
 * The limit is the lowest of the cgroups above, so that the pool is the same at each start; sharers are the
 * workers that live under it together (serve's). The quarter that stays is for what grows with a
 * model and its load: activations of a step, messages under way, page cache of files that are read.
 * The pool is touched before the worker is ready, so that a plan that was too bold fails the start.
 *
 * Thread: any; no state.
 */
#pragma once

#include "kvcache/geometry.h"

#define KV_MEMORY_DEFAULT (256ull << 20)
/* Code, gRPC, UCX, logs, tables, and serve's router's part: 21 MiB seen at rest (docs/benchmarks.md), with
 * what gRPC buffers under load before it refuses. */
#define KV_PROCESS_BYTES (96ull << 20)

struct kv_wishes {
    uint32_t context_tokens;
    uint32_t sequences_max; /* in a batch */
    uint32_t kv_blocks;     /* 0: not said */
    uint64_t kv_memory;     /* bytes; 0: not said */
    uint64_t limit_bytes;   /* of the cgroup; 0: there is none */
    uint64_t weight_bytes;
    uint32_t n_sharers; /* of the limit; 0 is 1 */
};

enum kv_plan_rule {
    KV_PLAN_AS_TOLD, /* kv_blocks or kv_memory */
    KV_PLAN_BATCH,   /* what sequences_max contexts need */
    KV_PLAN_SHARE,   /* of the limit */
    KV_PLAN_DEFAULT, /* KV_MEMORY_DEFAULT */
    KV_PLAN_CONTEXT, /* one whole context, which is more than that */
};
const char *kv_plan_rule_text(enum kv_plan_rule rule);

struct kv_plan {
    uint32_t n_blocks;
    enum kv_plan_rule rule;
};

/* INVALID_ARGUMENT: kv_memory is less than a block, or more than can be counted. NO_MEMORY: the limit
 * leaves nothing for a block. Both with a sentence. */
MUST_CHECK enum status kv_plan_make(const struct geometry *geometry, const struct kv_wishes *wishes,
                                    struct kv_plan *plan_out, struct error *error);

/* The longest context, whole blocks up to context_tokens, that n_pools workers on one machine, each
 * with a pool of one context, hold in so many bytes. */
uint32_t kv_plan_context_fit(const struct geometry *geometry, uint64_t bytes, uint32_t n_pools,
                             uint32_t context_tokens);
