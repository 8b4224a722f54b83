/*
 * kv_plan - how many blocks a worker's pool has, and what contexts a machine has memory for.
 *
 * Blocks from kv_blocks, else kv_memory, else what sequences_max contexts need, at most
 * KV_MEMORY_DEFAULT; never fewer than one whole context.
 *
 * Thread: any; no state.
 */
#pragma once

#include "kvcache/geometry.h"

#define KV_MEMORY_DEFAULT (256ull << 20)

struct kv_wishes {
    uint32_t context_tokens;
    uint32_t sequences_max; /* in a batch */
    uint32_t kv_blocks;     /* 0: not said */
    uint64_t kv_memory;     /* bytes; 0: not said */
};

/* INVALID_ARGUMENT: kv_memory is less than a block, or more than can be counted. */
MUST_CHECK enum status kv_plan_blocks(const struct geometry *geometry,
                                      const struct kv_wishes *wishes, uint32_t *n_blocks_out,
                                      struct error *error);

/* The longest context, whole blocks up to context_tokens, that n_pools workers on one machine, each
 * with a pool of one context, hold in so many bytes. */
uint32_t kv_plan_context_fit(const struct geometry *geometry, uint64_t bytes, uint32_t n_pools,
                             uint32_t context_tokens);
