/* prefix_tree: who watches is told of each block that comes and leaves, why, and whose KV is before it; and single spans can be
 * added behind what is there. */
#include "base/random.h"
#include "kvcache/prefix_tree.h"

#include <criterion/criterion.h>
#include <string.h>

enum { BLOCKS = 12, CHANGES = 64 };

struct watch {
    struct block_pool *pool;
    struct prefix_tree *tree;
    uint32_t n;
    struct prefix_change changes[CHANGES];
};

static void on_change(void *arg, const struct prefix_change *change)
{
    struct watch *watch = arg;
    cr_assert(watch->n < CHANGES);
    if (change->reason != PREFIX_STORED)
        cr_assert(block_pool_state(watch->pool, change->id) != BLOCK_FREE,
                  "its bytes are still there");
    watch->changes[watch->n++] = *change;
}

static void open_watch(struct watch *watch, const struct cache_groups *groups)
{
    *watch = (struct watch){0};
    cr_assert_eq(block_pool_create(BLOCKS, 64, &watch->pool), STATUS_OK);
    cr_assert_eq(prefix_tree_create(watch->pool, groups, 8, 64, &watch->tree), STATUS_OK);
    prefix_tree_observe(watch->tree, on_change, watch);
}

static void close_watch(struct watch *watch)
{
    prefix_tree_destroy(watch->tree);
    block_pool_destroy(watch->pool);
}

static const struct cache_groups ONE = {0};
static const struct prefix_hash HASHES[6] = {{1, 1}, {2, 2}, {3, 3}, {4, 4}, {5, 5}, {6, 6}};

/* A prefix of n spans that nobody holds; the blocks of those that are new have that origin. */
static void insert(struct watch *watch, uint32_t n, uint64_t origin)
{
    block_id ids[6];
    cr_assert_eq(block_pool_acquire(watch->pool, n, ids), STATUS_OK);
    const uint32_t known = prefix_tree_peek(watch->tree, HASHES, n);
    block_pool_set_origin(watch->pool, ids + known, n - known, origin);
    prefix_tree_insert(watch->tree, HASHES, n, ids, n);
    block_pool_release(watch->pool, ids, n);
}

static void expect(const struct watch *watch, uint32_t at, enum prefix_reason reason, uint64_t hash,
                   uint64_t parent, uint64_t origin, bool is_idle)
{
    const struct prefix_change *change = &watch->changes[at];
    cr_assert(at < watch->n);
    cr_assert_eq(change->reason, reason, "%u", at);
    cr_assert_eq(change->hash.lo, hash);
    cr_assert_eq(change->parent.hi, parent);
    cr_assert_eq(change->origin, origin);
    cr_assert_eq(change->is_idle, is_idle);
}

Test(prefix_watch, blocks_come_from_the_first_and_go_from_the_last)
{
    struct watch watch;
    open_watch(&watch, &ONE);
    insert(&watch, 3, 0);
    for (uint32_t i = 0; i < 3; i++)
        expect(&watch, i, PREFIX_STORED, i + 1, i, 0, false);
    insert(&watch, 3, 0); /* it is there already */
    cr_assert_eq(watch.n, 3);
    cr_assert_eq(prefix_tree_evict(watch.tree, BLOCKS - 1), 2);
    expect(&watch, 3, PREFIX_EVICTED, 3, 2, 0, true);
    expect(&watch, 4, PREFIX_EVICTED, 2, 1, 0, true);
    cr_assert_eq(prefix_tree_flush(watch.tree), 1);
    expect(&watch, 5, PREFIX_FLUSHED, 1, 0, 0, true);
    insert(&watch, 1, 0);
    prefix_tree_evict(watch.tree, BLOCKS);
    expect(&watch, 7, PREFIX_EVICTED, 1, 0, 0, true);
    cr_assert_eq(prefix_tree_evictions(watch.tree), 4);
    close_watch(&watch);
    cr_assert_eq(watch.n, 8, "the end of the tree is told to nobody");
}

Test(prefix_watch, what_is_not_trusted_is_told_apart)
{
    struct watch watch;
    open_watch(&watch, &ONE);
    insert(&watch, 2, 0);
    insert(&watch, 4, 77); /* of these the last two are new */
    cr_assert_eq(prefix_tree_drop(watch.tree, 77), 2);
    expect(&watch, 4, PREFIX_DROPPED, 4, 3, 77, true);
    expect(&watch, 5, PREFIX_DROPPED, 3, 2, 77, true);
    cr_assert_eq(prefix_tree_forget(watch.tree, HASHES[1]), 1);
    expect(&watch, 6, PREFIX_FORGOTTEN, 2, 1, 0, true);
    cr_assert_eq(prefix_tree_evictions(watch.tree), 0);
    close_watch(&watch);
}

Test(prefix_watch, the_origin_is_that_of_all_before_it)
{
    struct watch watch;
    open_watch(&watch, &ONE);
    insert(&watch, 1, 0);
    insert(&watch, 2, 77);
    insert(&watch, 3, 0);
    insert(&watch, 4, 78);
    insert(&watch, 5, 0);
    watch.n = 0;
    prefix_tree_evict(watch.tree, BLOCKS);
    expect(&watch, 0, PREFIX_EVICTED, 5, 4, PREFIX_ORIGINS_MIXED, true);
    expect(&watch, 1, PREFIX_EVICTED, 4, 3, PREFIX_ORIGINS_MIXED, true);
    expect(&watch, 2, PREFIX_EVICTED, 3, 2, 77, true);
    expect(&watch, 3, PREFIX_EVICTED, 2, 1, 77, true);
    expect(&watch, 4, PREFIX_EVICTED, 1, 0, 0, true);
    close_watch(&watch);
}

Test(prefix_watch, what_is_uprooted_below_an_idle_block_may_be_held)
{
    struct watch watch;
    block_id ids[2];
    open_watch(&watch, &ONE);
    insert(&watch, 1, 0);
    cr_assert_eq(block_pool_acquire(watch.pool, 2, ids), STATUS_OK);
    prefix_tree_insert(watch.tree, HASHES, 2, ids, 2); /* a copy of the first, and the second */
    watch.n = 0;
    cr_assert_eq(prefix_tree_uproot(watch.tree, BLOCKS), 2);
    expect(&watch, 0, PREFIX_EVICTED, 2, 1, 0, false);
    expect(&watch, 1, PREFIX_EVICTED, 1, 0, 0, true);
    block_pool_release(watch.pool, ids, 2);
    close_watch(&watch);
}

/* ---- single spans ---- */

static bool add(struct watch *watch, uint32_t at)
{
    block_id id;
    cr_assert_eq(block_pool_acquire(watch->pool, 1, &id), STATUS_OK);
    const bool is_added = prefix_tree_add(watch->tree, HASHES, at, &id);
    block_pool_release(watch->pool, &id, 1);
    return is_added;
}

Test(prefix_watch, a_span_is_added_behind_those_that_are_there)
{
    struct watch watch;
    open_watch(&watch, &ONE);
    cr_assert(!add(&watch, 1), "the one before it is missing");
    cr_assert(add(&watch, 0) && add(&watch, 1) && add(&watch, 2));
    cr_assert_eq(prefix_tree_peek(watch.tree, HASHES, 6), 3);
    cr_assert(!add(&watch, 4));
    cr_assert(add(&watch, 1), "it is there, and that is fine");
    cr_assert_eq(block_pool_count(watch.pool, BLOCK_CACHED), 3);
    cr_assert(prefix_tree_has(watch.tree, HASHES[2], 0) &&
              !prefix_tree_has(watch.tree, HASHES[3], 0));
    close_watch(&watch);
}

Test(prefix_watch, touched_spans_are_evicted_last)
{
    struct watch watch;
    const struct prefix_hash other = {9, 9};
    block_id id;
    open_watch(&watch, &ONE);
    insert(&watch, 2, 0);
    cr_assert_eq(block_pool_acquire(watch.pool, 1, &id), STATUS_OK);
    prefix_tree_insert(watch.tree, &other, 1, &id, 1);
    block_pool_release(watch.pool, &id, 1);
    cr_assert_eq(prefix_tree_touch(watch.tree, HASHES, 6), 2);
    prefix_tree_evict(watch.tree, BLOCKS - 2);
    cr_assert(!prefix_tree_has(watch.tree, other, 0) && prefix_tree_has(watch.tree, HASHES[1], 0));
    close_watch(&watch);
}

Test(prefix_watch, spans_of_windows_are_added_without_those_before_them)
{
    static const struct cache_groups WINDOW = {.n = 1, .places = 1, .all = {{1, 8, {0}}}};
    struct watch watch;
    open_watch(&watch, &WINDOW);
    cr_assert(add(&watch, 3));
    cr_assert_eq(prefix_tree_count(watch.tree), 4, "with nodes that have no block");
    cr_assert(add(&watch, 4));
    cr_assert_eq(prefix_tree_peek(watch.tree, HASHES, 6), 5);
    const block_id none = BLOCK_NONE;
    cr_assert(prefix_tree_add(watch.tree, HASHES, 5, &none), "it is as if nothing had been added");
    cr_assert_eq(prefix_tree_count(watch.tree), 5);
    prefix_tree_evict(watch.tree, BLOCKS);
    cr_assert_eq(prefix_tree_count(watch.tree), 0);
    close_watch(&watch);
}

Test(prefix_watch, a_block_of_a_window_is_added_to_a_span_that_lacks_it)
{
    static const struct cache_groups BOTH = {
        .n = 2, .places = 1, .all = {{1, 0, {0}}, {1, 8, {0}}}};
    struct watch watch;
    block_id ids[2];
    open_watch(&watch, &BOTH);
    cr_assert_eq(block_pool_acquire(watch.pool, 2, ids), STATUS_OK);
    const block_id full[2] = {ids[0], BLOCK_NONE}, window[2] = {BLOCK_NONE, ids[1]};
    cr_assert(!prefix_tree_add(watch.tree, HASHES, 0, window), "a new one has its full groups");
    cr_assert_eq(prefix_tree_count(watch.tree), 0);
    cr_assert(prefix_tree_add(watch.tree, HASHES, 0, full));
    cr_assert(!prefix_tree_has(watch.tree, HASHES[0], 1));
    cr_assert(prefix_tree_add(watch.tree, HASHES, 0, window));
    cr_assert(prefix_tree_has(watch.tree, HASHES[0], 1));
    cr_assert_eq(watch.changes[1].group, 1);
    block_pool_release(watch.pool, ids, 2);
    close_watch(&watch);
}
