/* prefix_tier: of several requests of one prefix one reads it, nobody waits for what is there or for who has left, and a disk
 * that hangs holds up one of them. */
#include "base/clock.h"
#include "tests/engine/support/tier_bed.h"

#include <criterion/criterion.h>

Test(prefix_tier_shared, requests_of_one_prefix_read_it_once)
{
    struct tier_bed bed;
    struct engine_request first = {0}, second = {0}, shorter = {0};
    tier_bed_push_out(&bed, 1);
    const uint64_t before = tier_bed_figures(&bed).tier.n_read;
    cr_assert(tier_bed_holds(&bed, &first, 0, 12, 0));
    cr_assert(tier_bed_holds(&bed, &second, 0, 12, 0));
    cr_assert(tier_bed_holds(&bed, &shorter, 0, 3, 0));
    for (int i = 0; i < 4; i++)
        cr_assert(kv_tier_work(bed.tier));
    cr_assert(tier_bed_holds(&bed, &first, 0, 12, 1) && tier_bed_holds(&bed, &second, 0, 12, 1));
    cr_assert(!tier_bed_holds(&bed, &shorter, 0, 3, 1), "what it needs has come");
    tier_bed_restore(&bed, &first, 0, 12, 2);
    cr_assert(!tier_bed_holds(&bed, &second, 0, 12, 2) &&
              prefix_tier_is_settled(bed.prefix, &second));
    cr_assert_eq(second.held_until_ns, 0);
    cr_assert_eq(tier_bed_figures(&bed).tier.n_read - before, 12);
    cr_assert_eq(tier_bed_figures(&bed).n_orders, 1);
    cr_assert_eq(tier_bed_run(&bed, 0, 12, 0), 12);
    tier_bed_close(&bed);
}

Test(prefix_tier_shared, a_longer_request_orders_its_own_rest_and_waits_no_longer_than_its_limit)
{
    struct tier_bed bed;
    struct engine_request first = {0}, longer = {0};
    tier_bed_push_out(&bed, 1);
    cr_assert(tier_bed_holds(&bed, &first, 0, 5, 0));
    cr_assert(tier_bed_holds(&bed, &longer, 0, 12, 10));
    tier_bed_restore(&bed, &first, 0, 5, 20);
    cr_assert(tier_bed_holds(&bed, &longer, 0, 12, 30));
    cr_assert_eq(tier_bed_figures(&bed).n_orders, 2);
    cr_assert_eq(prefix_tier_next_limit_ns(bed.prefix), 10 + LIMIT_NS, "from its first wait");
    tier_bed_work(&bed);
    tier_bed_restore(&bed, &longer, 0, 12, 40);
    cr_assert_eq(tier_bed_run(&bed, 0, 12, 0), 12);
    tier_bed_close(&bed);
}

Test(prefix_tier_shared, an_order_ends_when_others_have_computed_its_blocks)
{
    struct tier_bed bed;
    struct engine_request request = {0};
    tier_bed_push_out(&bed, 1);
    const uint64_t before = tier_bed_figures(&bed).tier.n_read;
    cr_assert(tier_bed_holds(&bed, &request, 0, 12, 0));
    cr_assert_eq(tier_bed_run(&bed, 0, 12, 0), 0); /* a request that was not held */
    cr_assert(!tier_bed_holds(&bed, &request, 0, 12, 1) &&
              prefix_tier_is_settled(bed.prefix, &request));
    cr_assert_eq(prefix_tier_next_limit_ns(bed.prefix), DEADLINE_NONE);
    tier_bed_work(&bed);
    cr_assert_eq(tier_bed_figures(&bed).tier.n_read, before);
    tier_bed_close(&bed);
}

Test(prefix_tier_shared, an_order_ends_with_its_request_and_who_waited_for_it_orders)
{
    struct tier_bed bed;
    struct engine_request first = {0}, second = {0};
    tier_bed_push_out(&bed, 1);
    cr_assert(tier_bed_holds(&bed, &first, 0, 12, 0) && tier_bed_holds(&bed, &second, 0, 12, 0));
    prefix_tier_leave(bed.prefix, &second);
    cr_assert_eq(prefix_tier_next_limit_ns(bed.prefix), LIMIT_NS, "the order is of the first");
    second = (struct engine_request){0};
    cr_assert(tier_bed_holds(&bed, &second, 0, 12, 0));
    prefix_tier_leave(bed.prefix, &first);
    prefix_tier_leave(NULL, &first);
    cr_assert(tier_bed_holds(&bed, &second, 0, 12, 0));
    cr_assert_eq(tier_bed_figures(&bed).n_orders, 2);
    prefix_tier_leave(bed.prefix, &second);
    const uint64_t before = tier_bed_figures(&bed).tier.n_read;
    tier_bed_work(&bed);
    cr_assert_eq(tier_bed_figures(&bed).tier.n_read, before);
    prefix_tier_run(bed.prefix, 1);
    cr_assert_eq(prefix_tier_next_limit_ns(bed.prefix), DEADLINE_NONE);
    tier_bed_close(&bed);
}

Test(prefix_tier_shared, while_the_disk_hangs_one_request_waits_and_no_other)
{
    struct tier_bed bed;
    struct engine_request first = {0}, second = {0}, third = {0};
    tier_bed_push_out(&bed, 1);
    tier_bed_run(&bed, 4, 12, 0); /* what it pushes out waits to be written */
    cr_assert(tier_bed_holds(&bed, &first, 0, 12, 0));
    cr_assert(!tier_bed_holds(&bed, &first, 0, 12, LIMIT_NS));
    cr_assert(!tier_bed_holds(&bed, &second, 1, 12, LIMIT_NS));
    cr_assert(!tier_bed_holds(&bed, &second, 1, 12, 2 * LIMIT_NS));
    cr_assert_eq(tier_bed_figures(&bed).n_orders, 1);
    cr_assert(kv_tier_work(bed.tier), "the disk goes on");
    cr_assert(tier_bed_holds(&bed, &third, 1, 12, 2 * LIMIT_NS));
    prefix_tier_leave(bed.prefix, &third);
    tier_bed_close(&bed);
}

Test(prefix_tier_shared, a_late_order_of_a_tier_that_has_nothing_to_do_holds_up_no_later_one)
{
    struct tier_bed bed;
    struct engine_request first = {0}, second = {0};
    tier_bed_push_out(&bed, 1);
    cr_assert(tier_bed_holds(&bed, &first, 0, 12, 0));
    tier_bed_work(&bed); /* all is read, and this engine was slow */
    cr_assert(!tier_bed_holds(&bed, &first, 0, 12, LIMIT_NS));
    cr_assert_eq(tier_bed_figures(&bed).n_late, 1);
    tier_bed_work(&bed); /* what made room for it is written */
    cr_assert(tier_bed_holds(&bed, &second, 1, 12, LIMIT_NS));
    prefix_tier_leave(bed.prefix, &second);
    tier_bed_close(&bed);
}

/* K and V of prompt 0 are computed here, but the tier has its snapshots from 7. */
static void push_out_states(struct tier_bed *bed)
{
    static const struct cache_groups GROUPS = {
        .n = 1, .places = 4, .all = {{4, 0, {0}}}, .n_state = 3};
    tier_bed_open(bed, tier_bed_device(1), &GROUPS, 30);
    tier_bed_run(bed, 0, 12, 7);
    for (uint32_t prompt = 1; prompt < 4; prompt++)
        tier_bed_run(bed, prompt, 12, 0);
    tier_bed_work(bed);
    cr_assert_eq(tier_bed_run(bed, 0, 12, 0), 0);
    struct block_table table;
    cr_assert_eq(kv_manager_init(bed->manager, &table), STATUS_OK);
    (void)kv_manager_match_spans(bed->manager, &table, bed->hashes[0], 12);
    for (uint32_t n = 1; kv_manager_has(bed->manager, bed->hashes[0][11], 1); n++)
        tier_bed_run(bed, 4, n, 0);
    tier_bed_work(bed);
    kv_manager_free(bed->manager, &table);
    kv_manager_finish(&table);
    cr_assert(kv_manager_has(bed->manager, bed->hashes[0][11], 0), "its K and V stayed");
}

/* It has three, each of which is brought once. */
Test(prefix_tier_shared, a_snapshot_that_the_cache_refused_is_not_ordered_again)
{
    struct tier_bed bed;
    struct engine_request requests[8] = {{.restore = 0}};
    push_out_states(&bed);
    for (uint32_t i = 0; i < 8; i++) {
        tier_bed_restore(&bed, &requests[i], 0, 12, 0);
        cr_expect(prefix_tier_is_settled(bed.prefix, &requests[i]));
        cr_expect_eq(tier_bed_figures(&bed).n_orders, i < 3 ? i + 1 : 3, "request %u", i);
    }

    /* Once what was computed here is gone, all of it comes back. */
    for (uint32_t prompt = 1; prompt < 4; prompt++)
        tier_bed_run(&bed, prompt, 12, 0);
    tier_bed_work(&bed);
    cr_assert_not(kv_manager_has(bed.manager, bed.hashes[0][11], 0));
    struct engine_request last = {0};
    tier_bed_restore(&bed, &last, 0, 12, 0);
    cr_expect_eq(tier_bed_run(&bed, 0, 12, 0), 12);
    tier_bed_close(&bed);
}
