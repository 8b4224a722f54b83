#include "engine/block_owners.h"

#include "base/clock.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_NS NS_PER_S

enum status block_owners_init(struct block_owners *owners, const struct block_pool *pool)
{
    owners->pool = pool;
    owners->next_ns = 0;
    owners->is_owned = calloc(block_pool_size(pool), sizeof *owners->is_owned);
    return owners->is_owned ? STATUS_OK : STATUS_NO_MEMORY;
}

void block_owners_finish(struct block_owners *owners)
{
    free(owners->is_owned);
    owners->is_owned = NULL;
}

static bool may_be_lost(const struct block_pool *pool)
{
    return block_pool_count(pool, BLOCK_FREE) + block_pool_count(pool, BLOCK_CACHED) <
           block_pool_size(pool);
}

bool block_owners_begin(struct block_owners *owners, bool is_idle, uint64_t now_ns)
{
    if (!is_idle && now_ns < owners->next_ns)
        return false;
    owners->next_ns = now_ns + LOOK_NS;
    if (may_be_lost(owners->pool))
        memset(owners->is_owned, 0, block_pool_size(owners->pool) * sizeof *owners->is_owned);
    return true;
}

void block_owners_add(struct block_owners *owners, const block_id *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        assert(ids[i] < block_pool_size(owners->pool));
        owners->is_owned[ids[i]] = true;
    }
}

void block_owners_add_table(struct block_owners *owners, const struct block_table *table)
{
    for (uint32_t group = 0; group < block_table_n_rows(table); group++) {
        const struct block_row row = block_table_row(table, group);
        block_owners_add(owners, row.ids, row.n);
    }
    const struct block_row state = block_table_state(table);
    block_owners_add(owners, state.ids, state.n);
}

uint32_t block_owners_count(const struct block_owners *owners)
{
    uint32_t n_lost = 0;
    assert(owners->next_ns > 0 && "block_owners_begin comes first");
    if (!may_be_lost(owners->pool))
        return 0;
    for (block_id id = 0; id < block_pool_size(owners->pool); id++) {
        enum block_state state = block_pool_state(owners->pool, id);
        n_lost += state != BLOCK_FREE && state != BLOCK_CACHED && !owners->is_owned[id];
    }
    return n_lost;
}
