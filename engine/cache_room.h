/*
 * cache_room - the blocks of a pool as a schedule counts them.
 *
 * A schedule counts the blocks that sequences hold between two steps (geometry_blocks). Where layers have windows, the
 * tokens of a step need more until the step is done: so many blocks are kept aside for that.
 *
 * Thread: the engine's.
 */
#pragma once

#include "kvcache/block_table.h"

struct block_owners;

struct cache_room {
    const struct block_pool *pool;
    uint32_t n_aside;
};

struct cache_room cache_room_of(const struct block_pool *pool, const struct geometry *geometry,
                                uint32_t step_tokens, uint32_t context_tokens);
/* Of the whole pool; 0: it has no more than those kept aside. */
uint32_t cache_room_all(const struct cache_room *room);
/* FREE, or CACHED without a holder. */
uint32_t cache_room_left(const struct cache_room *room);
/* The most spans of each group, by [cache_groups_count]: UINT32_MAX: all. */
void cache_room_limits(const struct geometry *geometry, uint32_t *span_limits_out);

/* All blocks of the table. */
void cache_room_own(const struct block_table *table, struct block_owners *owners);
