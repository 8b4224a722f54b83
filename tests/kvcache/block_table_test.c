/* block_table: grows by whole blocks, evicts only what it then gets, and gives all back. */
#include "kvcache/block_table.h"

#include <criterion/criterion.h>

static struct block_pool *pool;
static struct prefix_tree *tree;
static const struct prefix_hash HASHES[4] = {{1, 0}, {2, 0}, {3, 0}, {4, 0}};

static const struct geometry ONE = {.n_layers = 2, .block_tokens = 8};

static enum status grow(struct block_table *table, uint32_t n_tokens)
{
    return block_table_prepare(table, &(struct block_need){.known = n_tokens});
}

static void set_up(void)
{
    cr_assert_eq(block_pool_create(4, 64, &pool), STATUS_OK);
    cr_assert_eq(prefix_tree_create(pool, &ONE.groups, 8, 16, &tree), STATUS_OK);
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
    cr_assert_eq(block_table_init(&table, pool, NULL, &ONE, 3), STATUS_OK);
    cr_assert_eq(grow(&table, 0), STATUS_OK);
    cr_assert_eq(table.n_blocks, 0);
    cr_assert_eq(grow(&table, 8), STATUS_OK);
    cr_assert_eq(table.n_blocks, 1);
    cr_assert_eq(grow(&table, 9), STATUS_OK);
    cr_assert_eq(table.n_blocks, 2);
    cr_assert_eq(grow(&table, 25), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(grow(&table, UINT32_MAX), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(table.n_blocks, 2);
    block_table_finish(&table);
    block_table_finish(&table);
}

Test(block_table, shares_a_known_prefix_and_owns_the_rest)
{
    struct block_table a, b;
    cr_assert_eq(block_table_init(&a, pool, tree, &ONE, 4), STATUS_OK);
    cr_assert_eq(block_table_init(&b, pool, tree, &ONE, 4), STATUS_OK);
    cr_assert_eq(grow(&a, 16), STATUS_OK);
    prefix_tree_insert(tree, HASHES, 2, a.blocks, 2);

    cr_assert_eq(block_table_match(&b, HASHES, 4), 16);
    cr_assert_eq(b.n_shared, 2);
    cr_assert_eq(grow(&b, 17), STATUS_OK);
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
    cr_assert_eq(block_table_init(&a, pool, tree, &ONE, 4), STATUS_OK);
    cr_assert_eq(block_table_init(&b, pool, tree, &ONE, 8), STATUS_OK);
    cr_assert_eq(grow(&a, 24), STATUS_OK);
    prefix_tree_insert(tree, HASHES, 3, a.blocks, 3);
    block_table_clear(&a);

    cr_assert_eq(grow(&b, 40), STATUS_NO_BLOCKS);
    cr_assert_eq(prefix_tree_count(tree), 3, "an unfulfillable wish evicts nothing");
    cr_assert_eq(grow(&b, 24), STATUS_OK);
    cr_assert_eq(prefix_tree_peek(tree, HASHES, 3), 1, "the chain went from its end");
    block_table_finish(&a);
    block_table_finish(&b);
}

/* b has a copy of the beginning that a left in the cache, above what b holds. */
Test(block_table, gets_cached_blocks_that_stand_above_held_ones)
{
    struct block_table a, b, c;
    cr_assert_eq(block_table_init(&a, pool, tree, &ONE, 4), STATUS_OK);
    cr_assert_eq(block_table_init(&b, pool, tree, &ONE, 4), STATUS_OK);
    cr_assert_eq(block_table_init(&c, pool, tree, &ONE, 4), STATUS_OK);
    cr_assert_eq(grow(&a, 8), STATUS_OK);
    cr_assert_eq(grow(&b, 16), STATUS_OK);
    prefix_tree_insert(tree, HASHES, 1, a.blocks, 1);
    prefix_tree_insert(tree, HASHES, 2, b.blocks, 2);
    block_table_clear(&a);
    cr_assert_eq(grow(&c, 24), STATUS_NO_BLOCKS);
    cr_assert_eq(prefix_tree_count(tree), 2);
    cr_assert_eq(grow(&c, 16), STATUS_OK);
    cr_assert_eq(prefix_tree_count(tree), 0, "what was below is b's alone");
    block_table_finish(&a);
    block_table_finish(&b);
    block_table_finish(&c);
}

/* ---- windows ---- */

/* Two full layers, and two groups of two with a window of 20 tokens: at most 4 spans of 8. */
static const struct geometry WINDOWS = {
    .n_layers = 6,
    .block_tokens = 8,
    .groups = {.n = 3, .places = 2, .all = {{2, 0, {0}}, {2, 20, {0}}, {2, 20, {0}}}}};

enum { SPANS = 12, N_BLOCKS = 80 };

static struct block_pool *wide;
static struct prefix_tree *wide_tree;

static void set_up_wide(void)
{
    cr_assert_eq(block_pool_create(N_BLOCKS, 64, &wide), STATUS_OK);
    cr_assert_eq(prefix_tree_create(wide, &WINDOWS.groups, 8, 16, &wide_tree), STATUS_OK);
}

static void tear_down_wide(void)
{
    prefix_tree_destroy(wide_tree);
    cr_assert_eq(block_pool_count(wide, BLOCK_FREE), N_BLOCKS);
    block_pool_destroy(wide);
}

TestSuite(block_table_windows, .init = set_up_wide, .fini = tear_down_wide);

static void prepare(struct block_table *table, uint32_t position, uint32_t end, uint32_t known)
{
    cr_assert_eq(block_table_prepare(table, &(struct block_need){position, end, known, false}),
                 STATUS_OK);
}

static void assert_row(const struct block_table *table, uint32_t group, uint32_t first,
                       uint32_t end)
{
    const struct block_row row = block_table_row(table, group);
    cr_assert(row.first == first && row.first + row.n == end, "group %u holds %u .. %u", group,
              row.first, row.first + row.n);
    for (uint32_t i = 0; i < row.n; i++)
        cr_assert_eq(block_pool_state(table->pool, row.ids[i]), BLOCK_ACTIVE);
    for (uint32_t i = 0; i < table->spans_max; i++)
        cr_assert_eq(table->blocks[group * table->spans_max + i] != BLOCK_NONE,
                     i >= first && i < end);
}

Test(block_table_windows, a_prompt_in_chunks_holds_its_window_and_its_chunk)
{
    struct block_table table;
    cr_assert_eq(block_table_init(&table, wide, NULL, &WINDOWS, SPANS), STATUS_OK);
    prepare(&table, 0, 0, 90);
    assert_row(&table, 0, 0, 12);
    assert_row(&table, 1, 0, 4);
    prepare(&table, 0, 48, 90);
    assert_row(&table, 2, 0, 6);
    prepare(&table, 48, 90, 90);
    assert_row(&table, 0, 0, 12);
    assert_row(&table, 1, 3, 12);
    prepare(&table, 90, 90, 90);
    assert_row(&table, 2, 8, 12);
    cr_assert_eq(table.n_blocks, 12 + 2 * 4);
    cr_assert_eq(block_pool_count(wide, BLOCK_ACTIVE), table.n_blocks);
    block_table_finish(&table);
}

Test(block_table_windows, decodes_hold_a_number_of_blocks_that_does_not_grow_with_them)
{
    struct block_table table;
    cr_assert_eq(block_table_init(&table, wide, NULL, &WINDOWS, SPANS), STATUS_OK);
    for (uint32_t n = 1; n < 96; n++) {
        prepare(&table, n - 1, n, n);
        const uint32_t spans = (n + 7) / 8;
        cr_assert_leq(table.n_blocks, geometry_blocks(&WINDOWS, n), "%u tokens", n);
        cr_assert_geq(table.n_blocks + 2, geometry_blocks(&WINDOWS, n), "%u tokens", n);
        cr_assert_eq(block_table_row(&table, 0).n, spans);
    }
    block_table_finish(&table);
}

static void number(struct prefix_hash *hashes)
{
    for (uint32_t i = 0; i < SPANS; i++)
        hashes[i] = (struct prefix_hash){i + 1, 0};
}

Test(block_table_windows, a_prefix_is_found_where_its_window_is_there)
{
    struct block_table a, b;
    struct prefix_hash hashes[SPANS];
    number(hashes);
    cr_assert_eq(block_table_init(&a, wide, wide_tree, &WINDOWS, SPANS), STATUS_OK);
    cr_assert_eq(block_table_init(&b, wide, wide_tree, &WINDOWS, SPANS), STATUS_OK);
    prepare(&a, 0, 48, 90);
    block_table_keep(&a, hashes, 6);
    prepare(&a, 48, 90, 90);
    block_table_keep(&a, hashes, 11);
    block_table_clear(&a);
    cr_assert_eq(block_table_match(&b, hashes, 11), 88);
    assert_row(&b, 0, 0, 11);
    assert_row(&b, 1, 8, 11);
    cr_assert_eq(b.n_blocks, 11 + 2 * 3);
    block_table_clear(&b);
    cr_assert_eq(block_table_match(&b, hashes, 5), 40, "of the first chunk all blocks are cached");
    assert_row(&b, 2, 2, 5);
    block_table_clear(&b);

    /* The blocks that were given back first go first. */
    cr_assert_eq(block_pool_count(wide, BLOCK_CACHED), 33);
    prefix_tree_evict(wide_tree, N_BLOCKS - 33 + 6);
    cr_assert_eq(prefix_tree_peek(wide_tree, hashes, 4), 0, "of spans 0 and 1 no window is there");
    cr_assert_eq(prefix_tree_peek(wide_tree, hashes, 5), 5, "it was used since");
    cr_assert_eq(prefix_tree_peek(wide_tree, hashes, 11), 11);
    block_table_finish(&a);
    block_table_finish(&b);
}

Test(block_table_windows, a_span_that_was_given_back_can_be_kept_again_by_another)
{
    struct block_table a, b;
    struct prefix_hash hashes[SPANS];
    number(hashes);
    cr_assert_eq(block_table_init(&a, wide, wide_tree, &WINDOWS, SPANS), STATUS_OK);
    cr_assert_eq(block_table_init(&b, wide, wide_tree, &WINDOWS, SPANS), STATUS_OK);
    prepare(&a, 88, 88, 88); /* as after a transfer: of windows the last spans alone */
    block_table_keep(&a, hashes, 11);
    block_table_clear(&a);
    cr_assert_eq(prefix_tree_peek(wide_tree, hashes, 5), 0);
    cr_assert_eq(prefix_tree_peek(wide_tree, hashes, 11), 11);
    prepare(&b, 0, 40, 40);
    block_table_keep(&b, hashes, 5);
    block_table_clear(&b);
    cr_assert_eq(prefix_tree_peek(wide_tree, hashes, 5), 5);
    cr_assert_eq(prefix_tree_count(wide_tree), 11);
    block_table_finish(&a);
    block_table_finish(&b);
}

/* Every block is a window's: what was given back cannot say any more whose KV it was. */
Test(block_table_windows, what_rests_on_a_forgotten_origin_is_not_kept)
{
    static const struct geometry ALL = {
        .n_layers = 2, .block_tokens = 8, .groups = {.n = 1, .places = 2, .all = {{2, 20, {0}}}}};
    struct prefix_tree *tree_of_all;
    struct block_table table;
    struct prefix_hash hashes[SPANS];
    number(hashes);
    prefix_tree_destroy(wide_tree);
    wide_tree = NULL;
    cr_assert_eq(prefix_tree_create(wide, &ALL.groups, 8, 16, &tree_of_all), STATUS_OK);
    cr_assert_eq(block_table_init(&table, wide, tree_of_all, &ALL, SPANS), STATUS_OK);
    prepare(&table, 0, 32, 80);
    block_pool_set_origin(wide, block_table_row(&table, 0).ids, 4, 77);
    block_table_keep(&table, hashes, 4);
    cr_assert_eq(prefix_tree_peek(tree_of_all, hashes, 4), 4);
    prepare(&table, 64, 80, 80);
    block_table_keep(&table, hashes, 10);
    cr_assert_eq(prefix_tree_count(tree_of_all), 4);
    block_table_finish(&table);
    prefix_tree_destroy(tree_of_all);
}
