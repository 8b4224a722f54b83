/* block_table: grows by whole blocks, evicts only what it then gets, and gives all back. */
#include "kvcache/block_table.h"

#include <criterion/criterion.h>

static struct block_pool *pool;
static struct prefix_tree *tree;
static const struct prefix_hash HASHES[4] = {{1, 0}, {2, 0}, {3, 0}, {4, 0}};

static void set_up(void)
{
    cr_assert_eq(block_pool_create(4, 64, &pool), STATUS_OK);
    cr_assert_eq(prefix_tree_create(pool, &tree), STATUS_OK);
}

static void tear_down(void)
{
    prefix_tree_destroy(tree);
    cr_assert_eq(block_pool_count(pool, BLOCK_FREE), 4);
    block_pool_destroy(pool);
}

TestSuite(block_table, .init = set_up, .fini = tear_down);

Test(block_table, grows_at_the_edge_of_a_block)
{
    struct block_table table;
    cr_assert_eq(block_table_init(&table, pool, NULL, 8, 3), STATUS_OK);
    cr_assert_eq(block_table_grow(&table, 0), STATUS_OK);
    cr_assert_eq(table.n_blocks, 0);
    cr_assert_eq(block_table_grow(&table, 8), STATUS_OK);
    cr_assert_eq(table.n_blocks, 1);
    cr_assert_eq(block_table_grow(&table, 9), STATUS_OK);
    cr_assert_eq(table.n_blocks, 2);
    cr_assert_eq(block_table_grow(&table, 25), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(block_table_grow(&table, UINT32_MAX), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(table.n_blocks, 2);
    block_table_finish(&table);
    block_table_finish(&table);
}

Test(block_table, shares_a_known_prefix_and_owns_the_rest)
{
    struct block_table a, b;
    cr_assert_eq(block_table_init(&a, pool, tree, 8, 4), STATUS_OK);
    cr_assert_eq(block_table_init(&b, pool, tree, 8, 4), STATUS_OK);
    cr_assert_eq(block_table_grow(&a, 16), STATUS_OK);
    prefix_tree_insert(tree, HASHES, a.blocks, 2);

    cr_assert_eq(block_table_match(&b, HASHES, 4), 16);
    cr_assert_eq(b.n_shared, 2);
    cr_assert_eq(block_table_grow(&b, 17), STATUS_OK);
    cr_assert_eq(b.blocks[0], a.blocks[0]);
    cr_assert_eq(b.n_blocks, 3);

    block_table_finish(&a);
    cr_assert_eq(block_pool_count(pool, BLOCK_ACTIVE), 3);
    block_table_clear(&b);
    cr_assert_eq(block_pool_count(pool, BLOCK_CACHED), 2);
    block_table_finish(&b);
}

Test(block_table, evicts_for_what_fits_and_nothing_for_what_does_not)
{
    struct block_table a, b;
    cr_assert_eq(block_table_init(&a, pool, tree, 8, 4), STATUS_OK);
    cr_assert_eq(block_table_init(&b, pool, tree, 8, 8), STATUS_OK);
    cr_assert_eq(block_table_grow(&a, 24), STATUS_OK);
    prefix_tree_insert(tree, HASHES, a.blocks, 3);
    block_table_clear(&a);

    cr_assert_eq(block_table_grow(&b, 40), STATUS_NO_BLOCKS);
    cr_assert_eq(prefix_tree_count(tree), 3, "an unfulfillable wish evicts nothing");
    cr_assert_eq(block_table_grow(&b, 24), STATUS_OK);
    cr_assert_eq(prefix_tree_peek(tree, HASHES, 3), 1, "the chain went from its end");
    block_table_finish(&a);
    block_table_finish(&b);
}

/* b has a copy of the beginning that a left in the cache, above what b holds. */
Test(block_table, gets_cached_blocks_that_stand_above_held_ones)
{
    struct block_table a, b, c;
    cr_assert_eq(block_table_init(&a, pool, tree, 8, 4), STATUS_OK);
    cr_assert_eq(block_table_init(&b, pool, tree, 8, 4), STATUS_OK);
    cr_assert_eq(block_table_init(&c, pool, tree, 8, 4), STATUS_OK);
    cr_assert_eq(block_table_grow(&a, 8), STATUS_OK);
    cr_assert_eq(block_table_grow(&b, 16), STATUS_OK);
    prefix_tree_insert(tree, HASHES, a.blocks, 1);
    prefix_tree_insert(tree, HASHES, b.blocks, 2);
    block_table_clear(&a);
    cr_assert_eq(block_table_grow(&c, 24), STATUS_NO_BLOCKS);
    cr_assert_eq(prefix_tree_count(tree), 2);
    cr_assert_eq(block_table_grow(&c, 16), STATUS_OK);
    cr_assert_eq(prefix_tree_count(tree), 0, "what was below is b's alone");
    block_table_finish(&a);
    block_table_finish(&b);
    block_table_finish(&c);
}
