/*
 * kv_manager_kind - what a kind of KV manager implements; engines use kv_manager.h alone.
 *
 * Thread: the pool's.
 */
#pragma once

#include "kvcache/block_table.h"
#include "kvcache/kv_manager_rule.h"

struct kv_manager;

struct kv_manager_kind {
    const char *name;
    bool shares; /* it can have a prefix cache */
    /* Checks the pool. INVALID_ARGUMENT with a sentence. */
    enum status (*check)(const struct kv_manager *manager, struct error *error);
    /* kv_manager_prepare of a need within context_tokens. */
    enum status (*prepare)(struct kv_manager *manager, struct block_table *table,
                           const struct block_need *need);
    /* kv_manager_settle; NULL: a sequence keeps what it has. */
    void (*settle)(struct block_table *table, uint32_t position, enum kv_next next);
    uint32_t (*all)(const struct kv_manager *manager);
    uint32_t (*left)(const struct kv_manager *manager);
    struct kv_manager_rule (*rule)(const struct kv_manager *manager);
};

extern const struct kv_manager_kind KV_MANAGER_PAGED_KIND, KV_MANAGER_CONTIGUOUS_KIND;

struct kv_manager {
    const struct kv_manager_kind *kind;
    struct block_pool *pool;
    struct prefix_tree *tree; /* NULL: no prefix cache */
    struct geometry geometry;
    uint32_t spans_max; /* of a sequence */
    uint32_t n_lasting; /* block_table.h */
    uint32_t snapshot_tokens;
    uint32_t n_aside; /* blocks for a step, beside those of sequences */
};
