#include "kvcache/block_table.h"

#include <assert.h>
#include <stdlib.h>

enum status block_table_init(struct block_table *table, struct block_pool *pool,
                             struct prefix_tree *tree, uint32_t block_tokens, uint32_t blocks_max)
{
    assert(pool && block_tokens > 0 && blocks_max > 0);
    block_id *blocks = malloc(blocks_max * sizeof *blocks);
    if (!blocks)
        return STATUS_NO_MEMORY;
    *table = (struct block_table){.pool = pool,
                                  .tree = tree,
                                  .block_tokens = block_tokens,
                                  .blocks_max = blocks_max,
                                  .blocks = blocks};
    return STATUS_OK;
}

void block_table_clear(struct block_table *table)
{
    if (table->n_blocks > 0)
        block_pool_release(table->pool, table->blocks, table->n_blocks);
    table->n_blocks = 0;
    table->n_shared = 0;
}

void block_table_finish(struct block_table *table)
{
    block_table_clear(table);
    free(table->blocks);
    *table = (struct block_table){0};
}

uint32_t block_table_match(struct block_table *table, const struct prefix_hash *hashes, uint32_t n)
{
    assert(table->n_blocks == 0);
    if (!table->tree)
        return 0;
    if (n > table->blocks_max)
        n = table->blocks_max;
    table->n_blocks = prefix_tree_match(table->tree, hashes, n, table->blocks);
    table->n_shared = table->n_blocks;
    return table->n_shared * table->block_tokens;
}

enum status block_table_grow(struct block_table *table, uint32_t n_tokens)
{
    uint32_t wanted = n_tokens / table->block_tokens + (n_tokens % table->block_tokens != 0);
    if (wanted > table->blocks_max)
        return STATUS_INVALID_ARGUMENT;
    if (wanted <= table->n_blocks)
        return STATUS_OK;

    uint32_t missing = wanted - table->n_blocks;
    uint32_t n_free = block_pool_count(table->pool, BLOCK_FREE);
    if (missing > n_free) {
        /* No cached block is evicted for a request that will not fit anyway. */
        if (!table->tree || missing - n_free > block_pool_count(table->pool, BLOCK_CACHED))
            return STATUS_NO_BLOCKS;
        prefix_tree_evict(table->tree, missing);
        prefix_tree_uproot(table->tree, missing);
        assert(block_pool_count(table->pool, BLOCK_FREE) >= missing &&
               "what nobody holds can be had");
    }
    TRY(block_pool_acquire(table->pool, missing, table->blocks + table->n_blocks));
    table->n_blocks = wanted;
    return STATUS_OK;
}
