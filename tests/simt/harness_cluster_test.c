/* clusters: CTAs that are live at once meet and reach each other's shared memory, in every schedule; what they may not is
 * reported with CTA and lanes. */
#include "tests/simt/harness_rig.h"

#include <criterion/criterion.h>
#include <string.h>

enum { THREADS = 64 };

TestSuite(harness_cluster, .init = harness_rig_begin, .fini = harness_rig_end);

static void run(const char *kernel, uint32_t n_ctas, uint32_t cluster, uint32_t number)
{
    struct simt_schedule schedule = harness_schedule(number);
    schedule.cluster = cluster;
    schedule.resident = number; /* rounded up to whole clusters */
    harness_rig_run(kernel, n_ctas, schedule);
}

Test(harness_cluster, shared_memory_of_another_cta)
{
    for (uint32_t s = 0; s < SCHEDULES; s++)
        for (uint32_t cluster = 1; cluster <= 4; cluster *= 2) {
            run("cluster_ring", 4, cluster, s);
            for (uint32_t i = 0; i < 4 * THREADS; i++) {
                const uint32_t rank = i / THREADS % cluster, thread = i % THREADS;
                const uint32_t before = 100 * ((rank + cluster - 1) % cluster) + thread;
                const float expected = (float)(before + 1000 * (100 * rank + thread));
                cr_assert_eq(harness_rig.data.values[i], expected, "%u of %u: %g", i, cluster,
                             (double)harness_rig.data.values[i]);
            }
        }
}

/* The barrier is of those that have not ended. */
Test(harness_cluster, sums_of_all_threads)
{
    for (uint32_t s = 0; s < SCHEDULES; s++) {
        run("cluster_sum", 4, 4, s);
        for (uint32_t cta = 0; cta < 4; cta++)
            cr_assert_eq(harness_rig.data.values[cta * THREADS], 4.f * THREADS - 32);
    }
}

Test(harness_cluster, a_deadlock_names_ctas_and_lanes)
{
    harness_rig_expect("cluster_deadlock", 2, 2, "deadlock in CTA 0,0,0");
    harness_rig_expect("cluster_deadlock", 2, 2,
                       "warp 1: lanes 0-31 at cluster_wait (96 of the cluster have arrived)");
    harness_rig_expect("cluster_deadlock", 2, 2, "deadlock in CTA 1,0,0");
    harness_rig_expect("cluster_deadlock", 2, 2,
                       "warp 0: lanes 0-31 at barrier_sync (barrier 3: 32 have arrived)");
}

Test(harness_cluster, arrivals_and_waits_go_by_turns)
{
    harness_rig_expect("cluster_arrives_twice", 2, 2, "again without a wait");
    harness_rig_expect("cluster_waits_at_once", 2, 2, "where it has not arrived");
}

Test(harness_cluster, addresses_of_other_ctas)
{
    harness_rig_expect("cluster_beyond", 2, 2, "4 bytes at 4096 of 4096 of shared memory");
    harness_rig_expect("cluster_unmapped", 2, 2, "of 4096 of shared memory");
    harness_rig_expect("cluster_of_more", 4, 2, "CTA 2 of a cluster of 2 is asked for");
    harness_rig_expect("cluster_has_ended", 2, 2, "CTA 0 of its cluster, which has ended");
    char said[4096];
    harness_rig_said("cluster_not_begun", 2, (struct simt_schedule){.cluster = 2}, said,
                     sizeof said);
    cr_assert(strstr(said, "CTA 1 of its cluster, of which nothing says that it has begun"), "%s",
              said);
}

Test(harness_cluster, launches_that_may_not_be)
{
    harness_rig_expect("cluster_ring", 3, 2, "3 CTAs along x are no whole number of clusters of 2");
    harness_rig_expect("cluster_ring", 32, 32, "a cluster of 32 CTAs cannot be launched");
}
