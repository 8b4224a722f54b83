/* prefix_tree: a snapshot of a recurrent state stands where a prefix may end, is found whole or not at all, rests on the origins above it,
 * and goes when its blocks are wanted. */
#include "kvcache/prefix_tree.h"

#include <criterion/criterion.h>

enum { N_STATE = 3, N_SPANS = 4, N_BLOCKS = 20 };

static const struct cache_groups GROUPS = {
    .n = 1, .places = 1, .all = {{1, 0, {0}}}, .n_state = N_STATE};
static const struct prefix_hash HASHES[N_SPANS] = {{1, 0}, {2, 0}, {3, 0}, {4, 0}};
static struct block_pool *pool;
static struct prefix_tree *tree;
static block_id spans[N_SPANS], state[N_STATE];

/* A prompt of four spans, which is held, and blocks for a snapshot. */
static void set_up(void)
{
    cr_assert_eq(block_pool_create(N_BLOCKS, 64, &pool), STATUS_OK);
    cr_assert_eq(prefix_tree_create(pool, &GROUPS, 8, N_SPANS, &tree), STATUS_OK);
    cr_assert_eq(block_pool_acquire(pool, N_SPANS, spans), STATUS_OK);
    cr_assert_eq(block_pool_acquire(pool, N_STATE, state), STATUS_OK);
}

static void tear_down(void)
{
    prefix_tree_destroy(tree);
    cr_assert_eq(block_pool_count(pool, BLOCK_FREE), N_BLOCKS);
    block_pool_destroy(pool);
}

TestSuite(prefix_state, .init = set_up, .fini = tear_down);

static void release_all(void)
{
    block_pool_release(pool, spans, N_SPANS);
    block_pool_release(pool, state, N_STATE);
}

Test(prefix_state, a_prefix_ends_at_its_last_snapshot)
{
    prefix_tree_insert(tree, HASHES, N_SPANS, spans, N_SPANS);
    cr_assert_eq(prefix_tree_peek(tree, HASHES, N_SPANS), 0);
    cr_assert_eq(prefix_tree_reach(tree, HASHES, N_SPANS), N_SPANS);
    cr_assert(prefix_tree_add_state(tree, HASHES[1], 0, 0, 2, state));
    cr_assert_eq(prefix_tree_peek(tree, HASHES, N_SPANS), 0, "a part of it is none");
    cr_assert(prefix_tree_add_state(tree, HASHES[1], 0, 2, 1, state + 2));
    cr_assert_eq(prefix_tree_peek(tree, HASHES, N_SPANS), 2);
    cr_assert_eq(prefix_tree_peek(tree, HASHES, 1), 0);
    block_id found[N_STATE];
    prefix_tree_share_state(tree, HASHES[1], found);
    cr_assert_arr_eq(found, state, sizeof state);
    block_pool_release(pool, found, N_STATE);
    release_all();
}

/* Of another's equal prefix the nodes are the tree's, as far as they may stand for the blocks that were computed on. */
Test(prefix_state, insert_says_where_a_snapshot_may_stand)
{
    block_id others[N_SPANS];
    cr_assert_eq(block_pool_acquire(pool, N_SPANS, others), STATUS_OK);
    block_pool_set_origin(pool, &others[2], 1, 77);
    cr_assert_eq(prefix_tree_insert(tree, HASHES, N_SPANS, spans, N_SPANS), N_SPANS);
    cr_assert_eq(prefix_tree_insert(tree, HASHES, N_SPANS, spans, N_SPANS), N_SPANS);
    cr_assert_eq(prefix_tree_insert(tree, HASHES, N_SPANS, others, N_SPANS), 2);
    cr_assert_eq(prefix_tree_insert(tree, HASHES, 1, others, N_SPANS), 1);
    block_pool_release(pool, others, N_SPANS);
    release_all();
}

Test(prefix_state, is_added_below_its_origin_alone_and_dropped_with_it)
{
    block_pool_set_origin(pool, &spans[1], 1, 77);
    prefix_tree_insert(tree, HASHES, N_SPANS, spans, N_SPANS);
    cr_assert_not(prefix_tree_add_state(tree, HASHES[0], 77, 0, N_STATE, state));
    cr_assert_not(prefix_tree_add_state(tree, HASHES[2], 88, 0, N_STATE, state));
    cr_assert(prefix_tree_add_state(tree, HASHES[2], 77, 0, N_STATE, state));
    cr_assert_eq(prefix_tree_peek(tree, HASHES, N_SPANS), 3);
    cr_assert_eq(prefix_tree_drop(tree, 77), 3);
    cr_assert_eq(prefix_tree_reach(tree, HASHES, N_SPANS), 1);
    release_all();
    cr_assert_eq(block_pool_count(pool, BLOCK_CACHED), 1);
}

Test(prefix_state, leaves_with_its_span_or_alone_when_it_is_idle_longest)
{
    prefix_tree_insert(tree, HASHES, N_SPANS, spans, N_SPANS);
    cr_assert(prefix_tree_add_state(tree, HASHES[1], 0, 0, N_STATE, state));
    block_pool_release(pool, state, N_STATE);
    block_pool_release(pool, spans, N_SPANS);
    const uint32_t n_free = N_BLOCKS - N_SPANS - N_STATE;
    cr_assert_eq(prefix_tree_evict(tree, n_free + 1), 1);
    cr_assert_eq(prefix_tree_peek(tree, HASHES, N_SPANS), 0, "a part of it has gone");
    cr_assert_eq(prefix_tree_reach(tree, HASHES, N_SPANS), N_SPANS);
    cr_assert_eq(prefix_tree_evict(tree, n_free + N_STATE), N_STATE - 1);
    cr_assert_eq(prefix_tree_count(tree), N_SPANS);
    cr_assert_eq(prefix_tree_forget(tree, HASHES[0]), N_SPANS);
    cr_assert_eq(block_pool_count(pool, BLOCK_FREE), N_BLOCKS);
}

Test(prefix_state, goes_with_the_node_that_is_forgotten)
{
    prefix_tree_insert(tree, HASHES, N_SPANS, spans, N_SPANS);
    cr_assert(prefix_tree_add_state(tree, HASHES[2], 0, 0, N_STATE, state));
    cr_assert_eq(prefix_tree_forget(tree, HASHES[1]), 3);
    for (int i = 0; i < N_STATE; i++)
        cr_assert_not(block_pool_is_cached(pool, state[i]));
    release_all();
}

Test(prefix_state, is_taken_out_by_who_holds_it)
{
    prefix_tree_insert(tree, HASHES, N_SPANS, spans, N_SPANS);
    cr_assert(prefix_tree_add_state(tree, HASHES[3], 0, 0, N_STATE, state));
    prefix_tree_take_state(tree, HASHES[3]);
    cr_assert_eq(prefix_tree_peek(tree, HASHES, N_SPANS), 0);
    for (int i = 0; i < N_STATE; i++)
        cr_assert_eq(block_pool_state(pool, state[i]), BLOCK_ACTIVE);
    release_all();
}

/* For each node a number of each of its rows, where a snapshot has many. */
Test(prefix_tree_bytes, the_memory_of_nodes_grows_with_the_blocks_of_a_state)
{
    const struct cache_groups none = {.n = 1, .places = 4, .all = {{4, 0, {0}}}};
    struct cache_groups many = none;
    many.n_state = 1000;
    const uint64_t fixed = prefix_tree_bytes(&none, 0, N_SPANS);
    cr_expect_eq(prefix_tree_bytes(&none, 64, N_SPANS) - fixed,
                 64 * (prefix_tree_bytes(&none, 1, N_SPANS) - fixed));
    cr_expect_eq(prefix_tree_bytes(&many, 64, N_SPANS) - prefix_tree_bytes(&none, 64, N_SPANS),
                 64 * 1000 * sizeof(block_id));
}
