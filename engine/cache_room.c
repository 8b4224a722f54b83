#include "engine/cache_room.h"

#include "engine/block_owners.h"

struct cache_room cache_room_of(const struct block_pool *pool, const struct geometry *geometry,
                                uint32_t step_tokens, uint32_t context_tokens)
{
    return (struct cache_room){pool, geometry_step_blocks(geometry, step_tokens, context_tokens)};
}

static uint32_t beside(const struct cache_room *room, uint32_t n)
{
    return n > room->n_aside ? n - room->n_aside : 0;
}

uint32_t cache_room_all(const struct cache_room *room)
{
    return beside(room, block_pool_size(room->pool));
}

uint32_t cache_room_left(const struct cache_room *room)
{
    return beside(room, block_pool_count(room->pool, BLOCK_FREE) +
                            block_pool_count(room->pool, BLOCK_CACHED));
}

void cache_room_limits(const struct geometry *geometry, uint32_t *span_limits_out)
{
    for (uint32_t group = 0; group < cache_groups_count(&geometry->groups); group++)
        span_limits_out[group] = cache_group_spans_max(&geometry->groups, group,
                                                       geometry->block_tokens);
}

void cache_room_own(const struct block_table *table, struct block_owners *owners)
{
    for (uint32_t group = 0; group < block_table_n_rows(table); group++) {
        const struct block_row row = block_table_row(table, group);
        block_owners_add(owners, row.ids, row.n);
    }
}
