/* kv_tier: what an engine stores comes back in the order that it asked for; what was dropped or cleared never does; and
 * nobody waits for a store. */
#include "base/clock.h"
#include "base/random.h"
#include "kvtier/host_blocks.h"
#include "kvtier/kv_tier.h"
#include "tests/kvtier/support/tier_folder.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

enum { STORES = 4, PIECES = 3, KEYS = 16, END_MS = 2000 };

/* A tier on memory of the host, without a thread: the test calls work. */
struct bed {
    struct host_blocks *host;
    struct kv_tier *tier;
};

static struct bed bed;

static void make_tier(const struct block_store_ops *ops, void *store)
{
    const struct kv_tier_options options = {.ops = ops,
                                            .store = store,
                                            .block_bytes = tier_block_bytes(),
                                            .stores_max = STORES,
                                            .pieces_max = PIECES,
                                            .keys_max = KEYS,
                                            .end_ms = END_MS,
                                            .wipes = true};
    cr_assert_eq(kv_tier_create(&options, &bed.tier), STATUS_OK);
}

static void make(void)
{
    struct error error = {""};
    const struct host_blocks_options options = {.bytes_max = 64 * tier_block_bytes(),
                                                .block_bytes = tier_block_bytes()};
    cr_assert_eq(host_blocks_create(&options, &error, &bed.host), STATUS_OK);
    make_tier(&HOST_BLOCKS_OPS, bed.host);
}

static void finish(void)
{
    (void)kv_tier_destroy(bed.tier);
    host_blocks_destroy(bed.host);
}

TestSuite(kv_tier, .init = make, .fini = finish);

/* False: it was not taken. */
static bool store(uint64_t number, uint64_t parent, uint64_t origin)
{
    const struct stored_block block = tier_block(number, parent, origin);
    uint8_t *bytes = kv_tier_store_begin(bed.tier, &block);
    if (!bytes)
        return false;
    tier_fill(number, bytes);
    kv_tier_store_end(bed.tier, bytes, true);
    return true;
}

static void work_all(void)
{
    while (kv_tier_work(bed.tier))
        continue;
}

static bool has(uint64_t number)
{
    const struct stored_block block = tier_block(number, 0, 0);
    return kv_tier_has(bed.tier, &block.key);
}

static uint64_t order(uint64_t first, uint32_t n)
{
    struct stored_key keys[KEYS];
    for (uint32_t i = 0; i < n; i++)
        keys[i] = tier_block(first + i, 0, 0).key;
    return kv_tier_order(bed.tier, keys, n);
}

static struct kv_tier_counts counts(void)
{
    struct kv_tier_counts now;
    kv_tier_count(bed.tier, &now);
    return now;
}

static void expect_end(uint64_t number)
{
    struct kv_tier_piece piece;
    cr_assert(kv_tier_take(bed.tier, &piece));
    cr_assert_eq(piece.order, number);
    cr_assert(piece.is_last && !piece.bytes);
    kv_tier_give(bed.tier, &piece);
}

static void expect_block(uint64_t number, uint32_t at, uint64_t block, bool is_last)
{
    struct kv_tier_piece piece;
    cr_assert(kv_tier_take(bed.tier, &piece));
    cr_assert_eq(piece.order, number);
    cr_assert_eq(piece.at, at);
    cr_assert(piece.bytes && tier_is_filled(block, piece.bytes));
    cr_assert_eq(piece.is_last, is_last);
    kv_tier_give(bed.tier, &piece);
}

static void expect_nothing(void)
{
    struct kv_tier_piece piece;
    cr_assert(!kv_tier_take(bed.tier, &piece));
}

Test(kv_tier, blocks_come_back_in_the_order_of_the_keys)
{
    for (uint64_t number = 1; number <= 3; number++)
        cr_assert(store(number, number - 1, 0));
    work_all();
    cr_assert_eq(counts().n_stored, 3);
    const uint64_t number = order(1, 3);
    expect_nothing();
    work_all();
    expect_block(number, 0, 1, false);
    expect_block(number, 1, 2, false);
    expect_block(number, 2, 3, true);
    expect_nothing();
    cr_assert_eq(counts().n_read, 3);
}

Test(kv_tier, a_block_that_waits_to_be_written_is_found)
{
    cr_assert(store(1, 0, 0));
    cr_assert(has(1) && !has(2));
    const uint64_t number = order(1, 1);
    cr_assert(kv_tier_work(bed.tier), "reads come first");
    expect_block(number, 0, 1, true);
    cr_assert_eq(counts().n_stored, 0);
    cr_assert(!store(1, 0, 0), "it is not taken twice");
    work_all();
    cr_assert(!store(1, 0, 0), "nor when it was written");
    cr_assert_eq(counts().n_skipped, 2);
}

Test(kv_tier, without_room_a_block_is_not_kept_and_is_counted)
{
    for (uint64_t number = 1; number <= STORES + 2; number++)
        cr_assert_eq(store(number, 0, 0), number <= STORES);
    cr_assert_eq(counts().n_dropped, 2);
    work_all();
    cr_assert(store(STORES + 1, 0, 0));
}

Test(kv_tier, bytes_that_could_not_be_copied_are_not_kept)
{
    const struct stored_block block = tier_block(1, 0, 0);
    uint8_t *bytes = kv_tier_store_begin(bed.tier, &block);
    cr_assert(bytes && !has(1), "while it is copied it is not there");
    kv_tier_store_end(bed.tier, bytes, false);
    work_all();
    cr_assert(!has(1));
    for (int i = 0; i < 2 * STORES; i++) { /* its room is free again */
        bytes = kv_tier_store_begin(bed.tier, &block);
        cr_assert(bytes);
        kv_tier_store_end(bed.tier, bytes, false);
    }
}

Test(kv_tier, an_order_ends_at_the_first_block_that_is_missing)
{
    cr_assert(store(1, 0, 0) && store(3, 2, 0));
    work_all();
    const uint64_t number = order(1, 3);
    work_all();
    expect_block(number, 0, 1, false);
    expect_end(number);
    expect_nothing();
    cr_assert_eq(counts().n_missed, 1);
}

Test(kv_tier, pieces_that_are_not_given_back_hold_up_reads_and_no_writes)
{
    struct kv_tier_piece pieces[PIECES];
    for (uint64_t number = 1; number <= 4; number++)
        cr_assert(store(number, 0, 0));
    work_all();
    const uint64_t number = order(1, 4);
    work_all();
    for (int i = 0; i < PIECES; i++)
        cr_assert(kv_tier_take(bed.tier, &pieces[i]));
    cr_assert(store(9, 0, 0));
    work_all();
    expect_nothing();
    cr_assert_eq(counts().n_stored, 5);
    kv_tier_give(bed.tier, &pieces[1]);
    work_all();
    expect_block(number, 3, 4, true);
    kv_tier_give(bed.tier, &pieces[0]);
    kv_tier_give(bed.tier, &pieces[2]);
}

Test(kv_tier, orders_have_a_bound_and_their_places_come_back)
{
    cr_assert(store(1, 0, 0));
    work_all();
    uint64_t numbers[KV_TIER_ORDERS_MAX];
    for (uint32_t i = 0; i < KV_TIER_ORDERS_MAX; i++)
        cr_assert_neq(numbers[i] = order(1, 1), 0);
    cr_assert_eq(order(1, 1), 0);
    kv_tier_cancel(bed.tier, numbers[2]);
    const uint64_t more = order(7, 1);
    cr_assert_neq(more, 0);
    struct kv_tier_piece piece;
    uint32_t n = 0;
    for (int i = 0; i < 20; i++) {
        work_all();
        for (; kv_tier_take(bed.tier, &piece); n++) {
            cr_assert_neq(piece.order, numbers[2]);
            kv_tier_give(bed.tier, &piece);
        }
    }
    cr_assert_eq(n, KV_TIER_ORDERS_MAX);
    for (uint32_t i = 0; i < KV_TIER_ORDERS_MAX; i++)
        cr_assert_neq(order(1, 1), 0);
}

Test(kv_tier, a_cancelled_order_gives_nothing_and_keeps_nothing)
{
    for (uint64_t number = 1; number <= 3; number++)
        cr_assert(store(number, 0, 0));
    work_all();
    for (int i = 0; i < 20; i++) {
        const uint64_t number = order(1, 3);
        for (int work = 0; work < i % 5; work++)
            (void)kv_tier_work(bed.tier);
        struct kv_tier_piece piece;
        const bool has_taken = i % 3 == 0 && kv_tier_take(bed.tier, &piece);
        kv_tier_cancel(bed.tier, number);
        if (has_taken)
            kv_tier_give(bed.tier, &piece);
        expect_nothing();
    }
    const uint64_t last = order(1, 3);
    work_all();
    for (uint32_t i = 0; i < 3; i++)
        expect_block(last, i, 1 + i, i == 2);
}

/* ---- what must vanish ---- */

Test(kv_tier, what_is_dropped_is_not_handed_out_even_if_it_was_read_or_waits)
{
    cr_assert(store(1, 0, 0) && store(2, 1, 50));
    work_all();
    cr_assert(store(3, 2, 50)); /* waits */
    const uint64_t number = order(1, 2);
    work_all(); /* both are read; 3 is written, too */
    cr_assert(store(4, 3, 50));
    kv_tier_drop(bed.tier, 50);
    expect_end(number);
    expect_nothing();
    cr_assert(!has(4), "it is not written any more");
    work_all();
    cr_assert(has(1) && !has(2) && !has(3) && !has(4));
}

Test(kv_tier, after_clear_there_is_nothing)
{
    cr_assert(store(1, 0, 0));
    work_all();
    cr_assert(store(2, 0, 0));
    const uint64_t number = order(1, 2);
    kv_tier_clear(bed.tier);
    work_all();
    expect_end(number);
    cr_assert(!has(1) && !has(2));
    cr_assert_eq(counts().store.n_blocks, 0);
}

/* ---- memory ---- */

/* A store that finds its memory clean, fills it, and has every second block. */
static enum status watch_read(void *arg, const struct stored_key *key, uint8_t *bytes_out,
                              uint64_t *origin_out)
{
    unsigned *n_reads = arg;
    for (size_t i = 0; i < tier_block_bytes(); i++)
        cr_assert_eq(bytes_out[i], 0, "read %u byte %zu", *n_reads, i);
    memset(bytes_out, 0xa5, tier_block_bytes());
    (*n_reads)++;
    *origin_out = 0;
    return key->hash.lo % 2 ? STATUS_OK : STATUS_NOT_FOUND;
}

static void watch_clear(void *arg)
{
    (void)arg;
}

Test(kv_tier, memory_of_blocks_that_are_not_handed_out_is_wiped)
{
    static const struct block_store_ops OPS = {
        .name = "watch", .read = watch_read, .clear = watch_clear};
    unsigned n_reads = 0;
    (void)kv_tier_destroy(bed.tier);
    make_tier(&OPS, &n_reads);
    for (int i = 0; i < 2 * PIECES; i++) {
        const uint64_t number = order(1, 2); /* one comes, one is missing */
        work_all();
        kv_tier_cancel(bed.tier, number);
        cr_assert_neq(order(1, 1), 0);
        work_all();
        kv_tier_clear(bed.tier);
        work_all();
        struct kv_tier_piece piece;
        while (kv_tier_take(bed.tier, &piece))
            kv_tier_give(bed.tier, &piece);
    }
    cr_assert_eq(n_reads, 3 * 2 * PIECES);
}

/* ---- its thread ---- */

/* A store that stands still until it is told to go on, as a disk that hangs. */
struct stuck {
    atomic_bool may_go;
    atomic_uint n_writes;
    _Atomic uint64_t until_ns;
};

static bool stuck_has(void *arg, const struct stored_key *key)
{
    (void)arg;
    (void)key;
    return false;
}

static enum status stuck_write(void *arg, const struct stored_block *block, const uint8_t *bytes)
{
    struct stuck *stuck = arg;
    cr_assert(tier_is_filled(block->key.hash.lo, bytes));
    while (!atomic_load(&stuck->may_go))
        sched_yield();
    atomic_fetch_add(&stuck->n_writes, 1);
    return STATUS_OK;
}

static void stuck_count(void *arg, struct store_counts *counts_out)
{
    (void)arg;
    *counts_out = (struct store_counts){0};
}

Test(kv_tier, a_disk_that_hangs_costs_blocks_and_no_time_of_the_engine)
{
    static const struct block_store_ops OPS = {
        .name = "stuck", .has = stuck_has, .write = stuck_write, .count = stuck_count};
    struct stuck stuck = {0};
    (void)kv_tier_destroy(bed.tier);
    make_tier(&OPS, &stuck);
    cr_assert_eq(kv_tier_start(bed.tier), STATUS_OK);
    uint32_t n_taken = 0;
    for (uint64_t number = 1; number <= 100; number++)
        n_taken += store(number, 0, 0);
    cr_assert_eq(n_taken, STORES);
    cr_assert_eq(counts().n_dropped, 100 - STORES);
    atomic_store(&stuck.may_go, true);
    cr_assert(kv_tier_destroy(bed.tier));
    bed.tier = NULL;
    cr_assert_eq(atomic_load(&stuck.n_writes), STORES, "what was taken is written before the end");
}

Test(kv_tier, a_disk_that_hangs_holds_up_no_end, .timeout = 30)
{
    static const struct block_store_ops OPS = {
        .name = "stuck", .has = stuck_has, .write = stuck_write, .count = stuck_count};
    static struct stuck stuck; /* outlives the test, as the tier does */
    static struct kv_tier *left;
    (void)kv_tier_destroy(bed.tier);
    make_tier(&OPS, &stuck);
    left = bed.tier;
    bed.tier = NULL;
    cr_assert_eq(kv_tier_start(left), STATUS_OK);
    uint8_t *bytes = kv_tier_store_begin(left, &(struct stored_block){.key.hash = {1, ~1ull}});
    cr_assert(bytes);
    tier_fill(1, bytes);
    kv_tier_store_end(left, bytes, true);
    const uint64_t before_ns = clock_now_ns();
    cr_assert(!kv_tier_destroy(left));
    const uint64_t took_ns = clock_now_ns() - before_ns;
    cr_assert(took_ns >= END_MS * NS_PER_MS && took_ns < 5 * END_MS * NS_PER_MS);
    atomic_store(&stuck.may_go, true);
    cr_assert(kv_tier_destroy(left), "it hangs no more");
}

/* The first one takes more than half of the time of an end. */
static enum status slow_write(void *arg, const struct stored_block *block, const uint8_t *bytes)
{
    struct stuck *stuck = arg;
    (void)block;
    (void)bytes;
    while (!atomic_load(&stuck->may_go) || clock_now_ns() < atomic_load(&stuck->until_ns))
        sched_yield();
    atomic_fetch_add(&stuck->n_writes, 1);
    return STATUS_OK;
}

Test(kv_tier, at_the_end_blocks_are_written_for_half_of_its_time, .timeout = 30)
{
    static const struct block_store_ops OPS = {
        .name = "slow", .has = stuck_has, .write = slow_write, .count = stuck_count};
    struct stuck stuck = {0};
    (void)kv_tier_destroy(bed.tier);
    make_tier(&OPS, &stuck);
    cr_assert_eq(kv_tier_start(bed.tier), STATUS_OK);
    for (uint64_t number = 1; number <= STORES; number++)
        cr_assert(store(number, 0, 0));
    atomic_store(&stuck.until_ns, clock_now_ns() + END_MS * NS_PER_MS * 7 / 10);
    atomic_store(&stuck.may_go, true);
    cr_assert(kv_tier_destroy(bed.tier));
    bed.tier = NULL;
    cr_assert_eq(atomic_load(&stuck.n_writes), 1);
}

Test(kv_tier, a_cancelled_order_makes_place_for_others, .timeout = 30)
{
    bool has_work = true;
    for (uint64_t number = 1; number <= 4; number++)
        cr_assert(store(number, 0, 0));
    work_all();
    cr_assert_eq(kv_tier_start(bed.tier), STATUS_OK);
    const uint64_t first = order(1, 4), second = order(4, 1);
    while (has_work) /* until nothing is free, and the thread sleeps */
        (void)kv_tier_done(bed.tier, &has_work);
    cr_assert_eq(counts().n_read, PIECES);
    kv_tier_cancel(bed.tier, first);
    while (counts().n_read < PIECES + 1)
        sched_yield();
    expect_block(second, 0, 4, true);
}

static void count_wake(void *arg)
{
    atomic_fetch_add((atomic_uint *)arg, 1);
}

/* Each wake is enough: who takes all that is there after a wake, and sleeps, misses nothing. */
Test(kv_tier, every_piece_comes_with_a_wake_behind_it, .timeout = 60)
{
    struct tier_folder folder;
    tier_folder_make(&folder);
    struct kv_files *files = tier_open(&folder, 64);
    atomic_uint n_wakes = 0;
    (void)kv_tier_destroy(bed.tier);
    make_tier(&KV_FILES_OPS, files);
    kv_tier_on_piece(bed.tier, count_wake, &n_wakes);
    cr_assert_eq(kv_tier_start(bed.tier), STATUS_OK);
    for (uint64_t number = 1; number <= 12; number++)
        while (!store(number, number - 1, 0) && !has(number))
            sched_yield();
    for (int round = 0; round < 300; round++) {
        struct kv_tier_piece piece;
        uint32_t n = 0;
        unsigned seen = atomic_load(&n_wakes);
        cr_assert_neq(order(1, 12), 0);
        while (n < 12) {
            while (atomic_load(&n_wakes) == seen)
                sched_yield();
            seen = atomic_load(&n_wakes);
            for (; kv_tier_take(bed.tier, &piece); n++) {
                cr_assert(piece.bytes && tier_is_filled(1 + piece.at, piece.bytes));
                kv_tier_give(bed.tier, &piece);
            }
        }
    }
    kv_tier_on_piece(bed.tier, NULL, NULL);
    (void)kv_tier_destroy(bed.tier);
    bed.tier = NULL;
    kv_files_close(files);
    tier_folder_remove(&folder);
}
