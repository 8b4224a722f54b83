/*
 * block_table - the blocks of one sequence in the order of its tokens.
 *
 *     token t lives in blocks[t / block_tokens], slot t % block_tokens
 *
 * The first blocks may come from the prefix tree and be shared; the others belong to the sequence
 * alone. The table holds each block once and releases all in finish.
 *
 * Thread: the pool's.
 */
#pragma once

#include "kvcache/prefix_tree.h"

struct block_table {
    struct block_pool *pool;
    struct prefix_tree *tree; /* may be NULL: no prefix cache */
    uint32_t block_tokens;
    uint32_t blocks_max;
    uint32_t n_blocks;
    uint32_t n_shared; /* first blocks, found in the tree */
    block_id *blocks;  /* [blocks_max] */
};

/* Allocates room for blocks_max ids. */
MUST_CHECK enum status block_table_init(struct block_table *table, struct block_pool *pool,
                                        struct prefix_tree *tree, uint32_t block_tokens,
                                        uint32_t blocks_max);
/* Releases the blocks and frees the table's memory. A zeroed table is fine. */
void block_table_finish(struct block_table *table);
/* Releases the blocks, keeps the table's memory. */
void block_table_clear(struct block_table *table);

/* For an empty table: takes the cached prefix, at most n blocks. Returns the number of its tokens. */
uint32_t block_table_match(struct block_table *table, const struct prefix_hash *hashes, uint32_t n);
/* Acquires blocks for n_tokens in all; if needed it evicts cached blocks without a holder. NO_BLOCKS: the
 * table is unchanged. INVALID_ARGUMENT: over blocks_max. */
MUST_CHECK enum status block_table_grow(struct block_table *table, uint32_t n_tokens);
