/*
 * block_owners - finds blocks that are in use although no request, lease or transfer has them. A fault of the bookkeeping would
 * leave them so for ever.
 *
 *     begin -> add: the blocks of each request, lease and transfer -> count
 *
 * Counts at most once a second, because a count reads the state of every block.
 *
 * Thread: the pool's.
 */
#pragma once

#include "kvcache/kv_manager.h"

#include <stdbool.h>
#include <stdint.h>

struct block_owners {
    const struct block_pool *pool;
    bool *is_owned; /* [blocks of pool] */
    uint64_t next_ns;
};

MUST_CHECK enum status block_owners_init(struct block_owners *owners,
                                         const struct block_pool *pool);
void block_owners_finish(struct block_owners *owners); /* a zeroed one is fine */

/* True: it is time to add the owned blocks and count. is_idle: no block is owned, so the count is cheap and comes at once. */
bool block_owners_begin(struct block_owners *owners, bool is_idle, uint64_t now_ns);
void block_owners_add(struct block_owners *owners, const block_id *ids, uint32_t n);
/* All blocks of a table. */
void block_owners_add_table(struct block_owners *owners, const struct block_table *table);
/* Blocks that are neither free nor cached, and that were not added. */
uint32_t block_owners_count(const struct block_owners *owners);
