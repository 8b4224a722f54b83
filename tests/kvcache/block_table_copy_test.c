/* block_table_copy: whole blocks are shared, the open one's bytes are copied, and a copy of a copy takes no block. */
#include "kvcache/block_table.h"

#include <criterion/criterion.h>
#include <string.h>

enum { N_BLOCKS = 24, BLOCK_BYTES = 64, SPANS = 8, BLOCK_TOKENS = 8 };

/* A full layer, and one with a window of 12 tokens: at most 3 spans. */
static const struct geometry BOTH = {
    .n_layers = 2,
    .block_tokens = BLOCK_TOKENS,
    .groups = {.n = 2, .places = 1, .all = {{1, 0, {0}}, {1, 12, {0}}}}};
static const struct geometry ONE = {.n_layers = 1, .block_tokens = BLOCK_TOKENS};

static struct block_pool *pool;

static void set_up(void)
{
    cr_assert_eq(block_pool_create(N_BLOCKS, BLOCK_BYTES, &pool), STATUS_OK);
}

static void tear_down(void)
{
    cr_assert_eq(block_pool_count(pool, BLOCK_FREE), N_BLOCKS);
    block_pool_destroy(pool);
}

TestSuite(block_table_copy, .init = set_up, .fini = tear_down);

static void init(struct block_table *table, const struct geometry *geometry)
{
    cr_assert_eq(block_table_init(table, pool, NULL, geometry, SPANS), STATUS_OK);
}

static void prepare(struct block_table *table, uint32_t position, uint32_t known)
{
    const struct block_need need = {.position = position, .end = known, .known = known};
    cr_assert_eq(block_table_prepare(table, &need), STATUS_OK);
}

static void fill(block_id id, int byte)
{
    memset(block_pool_data(pool, id), byte, BLOCK_BYTES);
}

static uint8_t byte_of(block_id id)
{
    return block_pool_data(pool, id)[BLOCK_BYTES - 1];
}

Test(block_table_copy, shares_what_is_full_and_copies_what_is_open)
{
    struct block_table a, b;
    init(&a, &ONE);
    init(&b, &ONE);
    prepare(&a, 0, 20);
    fill(a.blocks[2], 7);
    cr_assert_eq(block_table_copy(&b, &a, 20), STATUS_OK);
    cr_assert_eq(b.n_blocks, 3);
    cr_assert_eq(b.n_spans, 3);
    cr_assert_eq(block_pool_count(pool, BLOCK_ACTIVE), 4);
    cr_assert(b.blocks[0] == a.blocks[0] && b.blocks[1] == a.blocks[1]);
    cr_assert_neq(b.blocks[2], a.blocks[2]);
    cr_assert_eq(byte_of(b.blocks[2]), 7);
    block_table_finish(&a);
    cr_assert_eq(block_pool_count(pool, BLOCK_ACTIVE), 3, "what was shared is held");
    block_table_finish(&b);
}

Test(block_table_copy, copies_nothing_at_the_edge_of_a_block)
{
    struct block_table a, b;
    init(&a, &ONE);
    init(&b, &ONE);
    prepare(&a, 0, 17); /* the third block has no token yet */
    fill(a.blocks[2], 7);
    cr_assert_eq(block_table_copy(&b, &a, 16), STATUS_OK);
    fill(b.blocks[2], 1);
    cr_assert_eq(block_table_copy(&b, &a, 16), STATUS_OK);
    cr_assert_eq(byte_of(b.blocks[2]), 1);
    block_table_finish(&a);
    block_table_finish(&b);
}

Test(block_table_copy, follows_another_without_taking_a_block)
{
    struct block_table tables[3];
    for (int i = 0; i < 3; i++)
        init(&tables[i], &ONE);
    prepare(&tables[0], 0, 12);
    for (int i = 1; i < 3; i++)
        cr_assert_eq(block_table_copy(&tables[i], &tables[0], 12), STATUS_OK);
    for (int i = 0; i < 3; i++)
        prepare(&tables[i], 12, 20);
    cr_assert_eq(block_pool_count(pool, BLOCK_ACTIVE), 1 + 3 * 2);
    for (int i = 0; i < 3; i++)
        fill(tables[i].blocks[2], 10 + i);
    const block_id own = tables[0].blocks[2];
    /* Until 20 tokens are known the second block is full of each one's. */
    cr_assert_eq(block_table_copy(&tables[0], &tables[2], 18), STATUS_OK);
    cr_assert_eq(tables[0].blocks[1], tables[2].blocks[1]);
    cr_assert_eq(tables[0].blocks[2], own);
    cr_assert_eq(byte_of(own), 12);
    cr_assert_eq(block_pool_count(pool, BLOCK_ACTIVE), 1 + 2 + 3, "its second block is free");
    for (int i = 0; i < 3; i++)
        block_table_finish(&tables[i]);
}

Test(block_table_copy, of_a_window_has_the_same_spans)
{
    struct block_table a, b;
    init(&a, &BOTH);
    init(&b, &BOTH);
    prepare(&a, 0, 44);
    prepare(&a, 43, 44);
    cr_assert_eq(block_table_copy(&b, &a, 43), STATUS_OK);
    for (uint32_t group = 0; group < 2; group++) {
        const struct block_row from = block_table_row(&a, group), to = block_table_row(&b, group);
        cr_assert(to.first == from.first && to.n == from.n);
        for (uint32_t i = 0; i < to.n; i++)
            cr_assert_eq(to.ids[i] == from.ids[i], to.first + i < 5);
    }
    for (uint32_t known = 45; known <= 64; known++) {
        prepare(&a, known - 1, known);
        prepare(&b, known - 1, known);
    }
    cr_assert_eq(block_table_copy(&a, &b, 64), STATUS_OK);
    block_table_finish(&a);
    block_table_finish(&b);
}

Test(block_table_copy, stays_empty_when_there_are_no_blocks)
{
    struct block_table a, b, others[3];
    init(&a, &ONE);
    init(&b, &ONE);
    prepare(&a, 0, 20);
    for (int i = 0; i < 3; i++) {
        init(&others[i], &ONE);
        prepare(&others[i], 0, 7 * BLOCK_TOKENS);
    }
    cr_assert_eq(block_table_copy(&b, &a, 20), STATUS_NO_BLOCKS);
    cr_assert_eq(b.n_blocks, 0);
    for (int i = 0; i < 3; i++)
        block_table_finish(&others[i]);
    cr_assert_eq(block_table_copy(&b, &a, 20), STATUS_OK);
    block_table_finish(&a);
    block_table_finish(&b);
}
