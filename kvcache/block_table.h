/*
 * block_table - the blocks of one sequence in the order of its tokens.
 *
 *     token t lives in blocks[t / block_tokens], slot t % block_tokens
 *
 * The leading blocks may come from the prefix tree and be shared; the others are the sequence's own.
 * The table holds each of its blocks once and gives all back in finish.
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
    uint32_t n_shared; /* leading blocks found in the tree */
    block_id *blocks;  /* [blocks_max] */
};

/* Allocates room for blocks_max ids. */
MUST_CHECK enum status block_table_init(struct block_table *table, struct block_pool *pool,
                                        struct prefix_tree *tree, uint32_t block_tokens,
                                        uint32_t blocks_max);
/* Gives the blocks back, frees the room. A zeroed table is fine. */
void block_table_finish(struct block_table *table);
/* Gives the blocks back, keeps the room. */
void block_table_clear(struct block_table *table);

/* Takes the known prefix, for an empty table; at most n hashes. Returns the tokens it covers. */
uint32_t block_table_match(struct block_table *table, const struct prefix_hash *hashes, uint32_t n);
/* Makes room for n_tokens in all, at the prefix cache's cost if need be: all that nobody holds can be had.
 * NO_BLOCKS: the table is as before. INVALID_ARGUMENT: over blocks_max. */
MUST_CHECK enum status block_table_grow(struct block_table *table, uint32_t n_tokens);
