/* races: what nothing orders shows in some schedule, or ThreadSanitizer says it, to whom each thread of a CTA is a thread. */
#include "tests/simt/harness_rig.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

TestSuite(harness_race, .init = harness_rig_begin, .fini = harness_rig_end);

#ifndef KVFERRY_SANITIZED_THREAD
Test(harness_race, a_copy_that_is_read_too_early_is_poison_when_copies_are_late)
{
    harness_rig_run("waits_too_little", 1, harness_schedule(0));
    cr_assert_eq(harness_rig.data.values[0], 126.f);
    harness_rig_run("waits_too_little", 1, harness_schedule(1));
    cr_assert(isnan(harness_rig.data.values[0]));
}

Test(harness_race, a_missing_barrier_shows_in_some_order)
{
    uint32_t n_wrong = 0;
    for (uint32_t s = 0; s < SCHEDULES; s++) {
        harness_rig_run("no_barrier", 1, harness_schedule(s));
        for (uint32_t i = 0; i < 64; i++)
            n_wrong += harness_rig.data.values[i] != (float)(i ^ 63);
    }
    cr_assert_gt(n_wrong, 0);
}

/* Why there is ThreadSanitizer. */
Test(harness_race, lanes_that_a_shuffle_lets_meet_show_in_no_order)
{
    for (uint32_t s = 0; s < SCHEDULES; s++) {
        harness_rig_run("ordered_by_a_shuffle", 1, harness_schedule(s));
        for (uint32_t i = 0; i < 64; i++)
            cr_assert_eq(harness_rig.data.values[i], (float)(i ^ 1));
    }
}
#else
static void expect_race(const char *kernel, uint32_t n_ctas, struct simt_schedule schedule)
{
    char said[8192];
    harness_rig_races(kernel, n_ctas, schedule, said, sizeof said);
    cr_assert(strstr(said, "simt: CTA "), "%s: %s", kernel, said);
    cr_assert(strstr(said, "WARNING: ThreadSanitizer: data race"), "%s: %s", kernel, said);
    cr_assert(strstr(said, "'thread ") && strstr(said, "lane "), "%s: %s", kernel, said);
}

static void expect_none(const char *kernel, uint32_t n_ctas, struct simt_schedule schedule)
{
    char said[8192];
    harness_rig_races(kernel, n_ctas, schedule, said, sizeof said);
    cr_assert_str_empty(said, "%s: %s", kernel, said);
}

Test(harness_race, threads_of_a_cta_that_nothing_orders)
{
    for (uint32_t s = 1; s < SCHEDULES; s += 2) { /* copies late: early ones are there by chance */
        expect_race("no_barrier", 1, harness_schedule(s));
        expect_race("waits_too_little", 1, harness_schedule(s));
        expect_race("ordered_by_a_shuffle", 1, harness_schedule(s));
    }
}

Test(harness_race, ctas_that_are_live_at_once_and_nothing_orders)
{
    const struct simt_schedule at_once = {.resident = 2, .seed = 5};
    expect_race("passes_on_unreleased", 2, at_once);
    expect_race("all_write_one", 2, at_once);
    expect_race("cluster_unordered", 2, (struct simt_schedule){.cluster = 2, .seed = 3});
}

Test(harness_race, what_is_ordered_is_not_reported)
{
    for (uint32_t s = 0; s < SCHEDULES; s++) {
        struct simt_schedule schedule = harness_schedule(s);
        expect_none("copies", 4, schedule);
        expect_none("hands_over", 1, schedule);
        schedule.resident = 4;
        expect_none("last_adds", 4, schedule);
        expect_none("chain", 4, schedule);
        schedule.cluster = 4;
        expect_none("cluster_ring", 4, schedule);
        expect_none("cluster_sum", 4, schedule);
    }
}
#endif
