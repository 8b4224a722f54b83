/* prefix_tier: a waiting request gets the blocks of its prefix back bit for bit, on any device and with windows; it waits up to its
 * limit; and what is not trusted does not come back. */
#include "base/clock.h"
#include "tests/device/fault_device.h"
#include "tests/engine/support/tier_bed.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* Prompts push each other out; each comes back whole. */
static void push_and_restore(struct tier_bed *bed, uint32_t n_spans)
{
    for (uint32_t prompt = 0; prompt < 5; prompt++) {
        tier_bed_run(bed, prompt, n_spans, 0);
        tier_bed_work(bed);
    }
    for (uint32_t prompt = 0; prompt < 5; prompt++) {
        struct engine_request request = {0};
        uint32_t rounds = 0;
        while (tier_bed_holds(bed, &request, prompt, n_spans, 0)) {
            tier_bed_work(bed);
            cr_assert_lt(++rounds, 50);
        }
        cr_assert(prefix_tier_is_settled(bed->prefix, &request));
        cr_assert_eq(request.held_until_ns, 0);
        cr_assert_eq(tier_bed_run(bed, prompt, n_spans, 0), n_spans, "prompt %u", prompt);
    }
    cr_assert_gt(tier_bed_figures(bed).tokens, 3 * n_spans * BLOCK_TOKENS);
    cr_assert_eq(kv_manager_count(bed->manager, BLOCK_ACTIVE), 0);
}

Test(prefix_tier, prompts_come_back_bit_for_bit_on_any_device)
{
    struct tier_bed bed;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        tier_bed_open(&bed, tier_bed_device(seed), &(struct cache_groups){0}, 20);
        push_and_restore(&bed, 12);
        tier_bed_close(&bed);
    }
}

Test(prefix_tier, groups_of_layers_with_windows_come_back_with_what_the_next_token_sees)
{
    static const struct cache_groups GROUPS[] = {
        {.n = 2, .places = 4, .all = {{4, 0, {0}}, {4, 20, {0}}}},
        {.n = 3, .places = 4, .all = {{4, 0, {0}}, {4, 0, {0}}, {4, 9, {0}}}},
        {.n = 1, .places = 4, .all = {{4, 24, {0}}}},
        {.n = 2, .places = 4, .all = {{4, 8, {0}}, {4, 40, {0}}}},
    };
    static const uint32_t BLOCKS[] = {40, 50, 16, 24};
    struct tier_bed bed;
    for (int i = 0; i < 4; i++)
        for (uint64_t seed = 1; seed <= 10; seed++) {
            tier_bed_open(&bed, tier_bed_device(seed), &GROUPS[i], BLOCKS[i]);
            push_and_restore(&bed, 12);
            tier_bed_close(&bed);
        }
}

/* Snapshots leave and come back block by block. */
Test(prefix_tier, a_prefix_comes_back_with_the_recurrent_state_behind_it)
{
    static const struct cache_groups GROUPS[] = {
        {.n = 1, .places = 4, .all = {{4, 0, {0}}}, .n_state = 3},
        {.n = 2, .places = 4, .all = {{4, 0, {0}}, {4, 20, {0}}}, .n_state = 7},
    };
    static const uint32_t BLOCKS[] = {24, 50};
    struct tier_bed bed;
    for (int i = 0; i < 2; i++)
        for (uint64_t seed = 1; seed <= 20; seed++) {
            tier_bed_open(&bed, tier_bed_device(seed), &GROUPS[i], BLOCKS[i]);
            push_and_restore(&bed, 12);
            tier_bed_close(&bed);
        }
}

/* Three requests at a time, whose spans are cut by the bytes of a call. */
Test(prefix_tier, blocks_of_two_spans_on_their_way_are_enough_for_all_orders)
{
    static const struct cache_groups GROUPS = {
        .n = 3, .places = 4, .all = {{4, 0, {0}}, {4, 0, {0}}, {4, 9, {0}}}};
    struct tier_bed bed;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct engine_request requests[3] = {{.restore = 0}};
        uint32_t n_held = 3;
        tier_bed_open(&bed, tier_bed_device(seed), &GROUPS, 120);
        prefix_tier_destroy(bed.prefix);
        (void)kv_tier_destroy(bed.tier);
        tier_bed_make_tier(&bed, prefix_tier_pieces_min(&bed.geometry));
        tier_bed_make_prefix(&bed, LIMIT_NS);
        for (uint32_t prompt = 0; prompt < 8; prompt++) {
            tier_bed_run(&bed, prompt, 12, 0);
            tier_bed_work(&bed);
        }
        for (uint32_t round = 0; n_held > 0; round++) {
            cr_assert_lt(round, 100);
            n_held = 0;
            for (uint32_t i = 0; i < 3; i++) {
                n_held += tier_bed_holds(&bed, &requests[i], i, 12, 0);
                for (uint32_t work = 0; work < seed; work++)
                    (void)kv_tier_work(bed.tier);
            }
        }
        cr_assert_gt(tier_bed_figures(&bed).n_orders, 1);
        for (uint32_t i = 0; i < 3; i++)
            cr_assert_eq(tier_bed_run(&bed, i, 12, 0), 12);
        tier_bed_close(&bed);
    }
}

Test(prefix_tier, a_call_copies_its_bytes_and_asks_to_be_called_again)
{
    struct tier_bed bed;
    struct engine_request request = {0};
    tier_bed_push_out(&bed, 1);
    cr_assert(tier_bed_holds(&bed, &request, 0, 12, 100));
    tier_bed_work(&bed);
    for (uint32_t call = 1; call <= 2; call++) {
        cr_assert(tier_bed_holds(&bed, &request, 0, 12, 100 + call));
        cr_assert_eq(tier_bed_figures(&bed).blocks, call * RUN_BLOCKS);
        cr_assert_eq(prefix_tier_next_limit_ns(bed.prefix), 100 + call, "at once");
    }
    cr_assert(!tier_bed_holds(&bed, &request, 0, 12, 103));
    cr_assert_eq(tier_bed_figures(&bed).blocks, 12);
    cr_assert_eq(prefix_tier_next_limit_ns(bed.prefix), DEADLINE_NONE);
    tier_bed_close(&bed);
}

Test(prefix_tier, the_limit_holds_for_a_call_that_leaves_blocks)
{
    struct tier_bed bed;
    struct engine_request request = {0};
    tier_bed_push_out(&bed, 1);
    cr_assert(tier_bed_holds(&bed, &request, 0, 12, 0));
    tier_bed_work(&bed);
    cr_assert(!tier_bed_holds(&bed, &request, 0, 12, LIMIT_NS));
    cr_assert_eq(tier_bed_figures(&bed).n_late, 1);
    cr_assert_eq(tier_bed_run(&bed, 0, 12, 0), RUN_BLOCKS);
    tier_bed_close(&bed);
}

Test(prefix_tier, a_request_waits_up_to_its_limit_and_then_has_what_came)
{
    struct tier_bed bed;
    struct engine_request request = {0};
    tier_bed_push_out(&bed, 1);
    cr_assert(tier_bed_holds(&bed, &request, 0, 12, 100));
    cr_assert_eq(request.held_until_ns, 100 + LIMIT_NS);
    cr_assert_eq(prefix_tier_next_limit_ns(bed.prefix), 100 + LIMIT_NS);
    for (int i = 0; i < 5; i++)
        cr_assert(kv_tier_work(bed.tier));
    cr_assert(tier_bed_holds(&bed, &request, 0, 12, 99 + LIMIT_NS));
    cr_assert(!tier_bed_holds(&bed, &request, 0, 12, 100 + LIMIT_NS));
    cr_assert_eq(prefix_tier_next_limit_ns(bed.prefix), DEADLINE_NONE);
    cr_assert_eq(tier_bed_figures(&bed).n_late, 1);
    cr_assert_eq(tier_bed_run(&bed, 0, 12, 0), 5);
    tier_bed_close(&bed);
}

Test(prefix_tier, without_anything_to_wait_for_nobody_waits)
{
    struct tier_bed bed;
    struct engine_request unknown = {0}, cached = {0};
    tier_bed_open(&bed, tier_bed_device(1), &(struct cache_groups){0}, 20);
    tier_bed_run(&bed, 0, 12, 0);
    cr_assert(!tier_bed_holds(&bed, &unknown, 1, 12, 0) &&
              prefix_tier_is_settled(bed.prefix, &unknown));
    cr_assert(!tier_bed_holds(&bed, &cached, 0, 12, 0) &&
              prefix_tier_is_settled(bed.prefix, &cached));
    cr_assert_eq(tier_bed_figures(&bed).n_orders, 0);
    cr_assert(prefix_tier_is_settled(NULL, &cached) &&
              !prefix_tier_holds(NULL, &cached, NULL, 0, 0));
    prefix_tier_run(NULL, 0);
    tier_bed_close(&bed);
}

Test(prefix_tier, with_a_limit_of_0_nobody_waits)
{
    struct tier_bed bed;
    struct engine_request request = {0};
    tier_bed_push_out(&bed, 1);
    prefix_tier_destroy(bed.prefix);
    tier_bed_make_prefix(&bed, 0);
    cr_assert(!tier_bed_holds(&bed, &request, 0, 12, 100));
    cr_assert(prefix_tier_is_settled(bed.prefix, &request) && request.held_until_ns == 0);
    cr_assert_eq(tier_bed_figures(&bed).n_orders, 0);
    tier_bed_close(&bed);
}

Test(prefix_tier, an_order_begins_when_its_blocks_can_be_taken)
{
    struct tier_bed bed;
    struct engine_request request = {0};
    struct block_table table;
    tier_bed_push_out(&bed, 1);
    cr_assert_eq(kv_manager_init(bed.manager, &table), STATUS_OK); /* a long one that runs */
    cr_assert_eq(
        kv_manager_prepare(bed.manager, &table, &(struct block_need){.known = 15 * BLOCK_TOKENS}),
        STATUS_OK);
    cr_assert(!tier_bed_holds(&bed, &request, 0, 12, 0));
    cr_assert(!prefix_tier_is_settled(bed.prefix, &request), "it asks again");
    kv_manager_free(bed.manager, &table);
    cr_assert(tier_bed_holds(&bed, &request, 0, 12, 0));
    tier_bed_restore(&bed, &request, 0, 12, 0);
    cr_assert_eq(tier_bed_run(&bed, 0, 12, 0), 12);
    kv_manager_finish(&table);
    tier_bed_close(&bed);
}

/* ---- what is not trusted ---- */

Test(prefix_tier, what_an_origin_sent_and_what_stands_on_it_is_dropped_from_the_tier_too)
{
    struct tier_bed bed;
    struct engine_request request = {0};
    tier_bed_open(&bed, tier_bed_device(1), &(struct cache_groups){0}, 20);
    tier_bed_run(&bed, 0, 4, 0);
    tier_bed_run(&bed, 0, 8, 77); /* received behind what is its own */
    tier_bed_run(&bed, 0, 12, 0); /* and computed on it */
    for (uint32_t prompt = 1; prompt < 4; prompt++)
        tier_bed_run(&bed, prompt, 12, 0);
    tier_bed_work(&bed);
    kv_manager_drop(bed.manager, 77);
    prefix_tier_drop(bed.prefix, 77);
    tier_bed_restore(&bed, &request, 0, 12, 0);
    tier_bed_work(&bed);
    struct engine_request again = {0};
    tier_bed_restore(&bed, &again, 0, 12, 0);
    cr_assert_eq(tier_bed_run(&bed, 0, 12, 0), 4);
    tier_bed_close(&bed);
}

Test(prefix_tier, what_came_back_has_the_origin_of_all_before_it)
{
    struct tier_bed bed;
    struct engine_request request = {0};
    tier_bed_open(&bed, tier_bed_device(1), &(struct cache_groups){0}, 20);
    tier_bed_run(&bed, 0, 8, 77);
    tier_bed_run(&bed, 0, 12, 0);
    for (uint32_t prompt = 1; prompt < 4; prompt++)
        tier_bed_run(&bed, prompt, 12, 0);
    tier_bed_restore(&bed, &request, 0, 12, 0);
    uint32_t n_held;
    cr_assert_eq(kv_manager_peek(bed.manager, bed.hashes[0], 12, &n_held), 12);
    cr_assert_eq(kv_manager_drop(bed.manager, 77), 12);
    tier_bed_close(&bed);
}

Test(prefix_tier, kv_of_two_origins_is_not_kept)
{
    struct tier_bed bed;
    tier_bed_open(&bed, tier_bed_device(1), &(struct cache_groups){0}, 20);
    tier_bed_run(&bed, 0, 4, 77);
    tier_bed_run(&bed, 0, 8, 78);
    for (uint32_t prompt = 1; prompt < 4; prompt++)
        tier_bed_run(&bed, prompt, 12, 0);
    cr_assert_eq(tier_bed_figures(&bed).mixed, 4);
    tier_bed_work(&bed);
    struct engine_request request = {0};
    tier_bed_restore(&bed, &request, 0, 8, 0);
    cr_assert_eq(tier_bed_run(&bed, 0, 8, 0), 4);
    tier_bed_close(&bed);
}

Test(prefix_tier, what_is_forgotten_or_flushed_does_not_come_back)
{
    struct tier_bed bed;
    for (int how = 0; how < 2; how++) {
        struct engine_request request = {0};
        tier_bed_push_out(&bed, 1);
        if (how == 0)
            kv_manager_forget(bed.manager, bed.hashes[3][5]);
        else
            kv_manager_flush(bed.manager);
        prefix_tier_clear(bed.prefix);
        tier_bed_work(&bed);
        tier_bed_restore(&bed, &request, 0, 12, 0);
        cr_assert_eq(tier_bed_run(&bed, 0, 12, 0), 0);
        tier_bed_close(&bed);
    }
}

Test(prefix_tier, a_device_that_is_lost_ends_orders_and_leaks_nothing)
{
    struct tier_bed bed;
    for (uint64_t at = 1; at <= 60; at++) {
        struct engine_request request = {0};
        tier_bed_push_out(&bed, at);
        fault_device_fail_at(bed.device, at);
        tier_bed_restore(&bed, &request, 0, 12, 0);
        cr_assert(prefix_tier_is_settled(bed.prefix, &request));
        cr_assert_eq(kv_manager_count(bed.manager, BLOCK_ACTIVE), 0);
        tier_bed_close(&bed);
    }
}
