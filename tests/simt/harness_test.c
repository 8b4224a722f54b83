/* harness: each thing that a kernel may not do is reported by name, and what it may do is right in every schedule. */
#include "kernels/cuda/launch.h"
#include "tests/simt/harness_rig.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

TestSuite(harness, .init = harness_rig_begin, .fini = harness_rig_end);

/* ---- what is right ---- */

Test(harness, copies_arrive_in_every_schedule)
{
    for (uint32_t s = 0; s < SCHEDULES; s++) {
        harness_rig_run("copies", 4, harness_schedule(s));
        for (uint32_t i = 0; i < HARNESS_VALUES; i++)
            cr_assert_eq(harness_rig.data.values[i], 2.f * (float)(i ^ 63));
    }
}

Test(harness, ctas_that_are_ordered_by_an_atomic_operation_may_share)
{
    for (uint32_t s = 0; s < SCHEDULES; s++) {
        struct simt_schedule schedule = harness_schedule(s);
        schedule.resident = s % 2 ? 7 : 0;
        harness_rig_run("last_adds", 7, schedule);
        cr_assert_eq(harness_rig.data.values[7], 28.f);
    }
}

Test(harness, ctas_that_are_live_at_once_wait_for_each_other)
{
    for (uint32_t s = 0; s < SCHEDULES; s++) {
        struct simt_schedule schedule = harness_schedule(s);
        schedule.resident = 6;
        harness_rig_run("chain", 6, schedule);
        cr_assert_eq(harness_rig.data.values[0], 6.f);
    }
}

Test(harness, ctas_that_are_not_live_are_waited_for_in_vain)
{
    char said[4096];
    harness_rig_said("chain", 6, (struct simt_schedule){.resident = 2}, said, sizeof said);
    cr_assert(strstr(said, "endless spinning in CTA"), "%s", said);
    cr_assert(strstr(said, "lane 0 spin in load_acquire"), "%s", said);
}

Test(harness, named_barriers_hand_over)
{
    for (uint32_t s = 0; s < SCHEDULES; s++) {
        harness_rig_run("hands_over", 1, harness_schedule(s));
        for (uint32_t i = 0; i < 128; i++)
            cr_assert_eq(harness_rig.data.values[i], (float)(i / 32 + 31 - i % 32));
    }
}

Test(harness, halves_of_a_warp_meet_for_themselves)
{
    for (uint32_t s = 0; s < SCHEDULES; s++) {
        harness_rig_run("halves", 1, harness_schedule(s));
        for (uint32_t i = 0; i < 64; i++) {
            const uint32_t lane = i % 32;
            const float expected = lane < 16 ? (float)(120 + (lane ^ 1) + 8000) : 376.f;
            cr_assert_eq(harness_rig.data.values[i], expected, "%u: %f", i,
                         (double)harness_rig.data.values[i]);
        }
    }
}

/* ---- what is reported ---- */

Test(harness, a_deadlock_names_lanes_and_collective)
{
    harness_rig_expect("deadlock", 1, 0,
                       "warp 1: lanes 0-15 at shuffle_xor of lanes ffffffff; lanes 16-31 ended");
    harness_rig_expect("half_at_a_barrier", 1, 0, "at barrier_sync (barrier 3: 32 have arrived)");
}

Test(harness, lanes_that_diverge_are_named)
{
    harness_rig_expect("diverges", 1, 0, "the warp has diverged");
    harness_rig_expect("masks_differ", 1, 0, "while others of its warp meet lanes");
    harness_rig_expect("not_of_the_mask", 1, 0,
                       "calls warp_sync of lanes 000000f0 and is none of them");
}

Test(harness, a_copy_that_is_never_waited_for)
{
    char said[4096];
    harness_rig_said("never_waits", 1, harness_schedule(1), said, sizeof said);
    cr_assert(strstr(said, "asynchronous copies that it never waited for"), "%s", said);
}

/* ---- what is seen of each access ---- */

#ifndef KVFERRY_SANITIZED_THREAD /* which has the announcements then */
Test(harness, bank_conflicts_are_counted)
{
    simt_take_counts();
    harness_rig_run("one_bank", 1, (struct simt_schedule){.count_banks = true});
    const struct simt_counts counts = simt_take_counts();
    cr_assert_eq(counts.shared_accesses, 1);
    cr_assert_eq(counts.bank_conflicts, 31);
}

Test(harness, memory_that_is_not_the_devices)
{
    harness_rig_expect("behind_the_end", 1, 0, "which is in no allocation: ");
    harness_rig_expect("of_the_host", 1, 0, "which is in no allocation");
}

Test(harness, memory_behind_the_shared)
{
    harness_rig_expect("behind_shared", 1, 0, "of 4096 of shared memory");
    harness_rig_expect("behind_shared_by_address", 1, 0,
                       "4 bytes at 4096 of 4096 of shared memory");
}

Test(harness, addresses_that_are_not_aligned)
{
    harness_rig_expect("misaligned", 1, 0, "a load of 16 bytes at ");
    harness_rig_expect("misaligned_word", 1, 0, "which is not aligned to them");
    harness_rig_expect("misaligned_matrix", 1, 0, "of shared memory are not aligned to 16");
}

Test(harness, ctas_that_touch_the_same_bytes)
{
    harness_rig_expect("all_write_one", 3, 0, "nothing orders the two");
    harness_rig_expect("reads_a_neighbours", 3, 0, "nothing orders the two");
    harness_rig_expect("adds_unfenced", 3, 0, "nothing orders the two");
}

Test(harness, bounds_are_looked_at_where_nothing_else_is)
{
    const struct simt_schedule schedule = {.only_bounds = true};
    char said[4096];
    harness_rig_run("all_write_one", 3, schedule);
    harness_rig_said("behind_the_end", 1, schedule, said, sizeof said);
    cr_assert(strstr(said, "which is in no allocation: "), "%s", said);
    harness_rig_said("misaligned_word", 1, schedule, said, sizeof said);
    cr_assert(strstr(said, "which is not aligned to them"), "%s", said);
    harness_rig_said("behind_shared", 1, schedule, said, sizeof said);
    cr_assert(strstr(said, "of 4096 of shared memory"), "%s", said);
}
#endif

/* ---- launches ---- */

static void launch_add(const struct harness_attempt *attempt)
{
    const struct add_parameters parameters = {attempt->address, harness_rig.data.values,
                                              HARNESS_VALUES};
    const struct device_shape shape = {{1, 1, 1}, attempt->threads, 0};
    device_bind(harness_rig.device);
    cuda_launch(CUDA_add, &shape, &parameters);
}

static void expect_refusal(void *address, uint32_t threads, const char *sentence)
{
    char said[4096];
    const struct harness_attempt attempt = {
        .run = launch_add, .address = address, .threads = threads};
    harness_rig_said_in(&attempt, said, sizeof said);
    cr_assert(strstr(said, sentence), "\"%s\" is not in: %s", sentence, said);
}

Test(harness, a_launch_that_may_not_be)
{
    static float own[HARNESS_VALUES];
    struct error error = {""};
    cr_assert_eq(device_load(harness_rig.device, &cuda_image, &error), STATUS_OK, "%s", error.text);
    expect_refusal(own, 256, "add: y is 0x");
}
