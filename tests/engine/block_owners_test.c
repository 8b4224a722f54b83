/* block_owners: a block in use without an owner is found; owned, free and cached blocks are not. */

#include "base/clock.h"
#include "engine/block_owners.h"

#include <criterion/criterion.h>

static struct block_pool *pool;
static struct block_owners owners;
static block_id ids[6];

static void set_up(void)
{
    cr_assert_eq(block_pool_create(8, 64, &pool), STATUS_OK);
    cr_assert_eq(block_owners_init(&owners, pool), STATUS_OK);
    cr_assert_eq(block_pool_acquire(pool, 6, ids), STATUS_OK);
}

static void tear_down(void)
{
    block_pool_release(pool, ids, 6);
    block_owners_finish(&owners);
    block_pool_destroy(pool);
}

Test(block_owners, what_nobody_names_is_lost, .init = set_up, .fini = tear_down)
{
    cr_assert(block_owners_begin(&owners, false, 1));
    block_owners_add(&owners, ids, 4);
    block_owners_add(&owners, ids + 2, 2); /* twice is once */
    cr_expect_eq(block_owners_count(&owners), 2);

    cr_assert(block_owners_begin(&owners, false, 1 + NS_PER_S));
    block_owners_add(&owners, ids, 6);
    cr_expect_eq(block_owners_count(&owners), 0);
}

Test(block_owners, looks_once_a_second_or_at_once_when_nothing_runs, .init = set_up,
     .fini = tear_down)
{
    cr_expect(block_owners_begin(&owners, false, 5));
    cr_expect_not(block_owners_begin(&owners, false, 4 + NS_PER_S));
    cr_expect(block_owners_begin(&owners, true, 4 + NS_PER_S));
    cr_expect_eq(block_owners_count(&owners), 6);
}

Test(block_owners, an_empty_pool_has_lost_nothing, .init = set_up)
{
    block_pool_release(pool, ids, 6);
    cr_expect(block_owners_begin(&owners, true, 1));
    cr_expect_eq(block_owners_count(&owners), 0);
    block_owners_finish(&owners);
    block_pool_destroy(pool);
}
