/* worker_threads: what `threads 0` comes to on machines of every kind, which threads are bound, and the engine's with them. */
#include "base/thread_pool.h"
#include "tests/base/support/laid_out.h"
#include "worker_common/worker_threads.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

TestSuite(worker_threads, .init = laid_out_make, .fini = laid_out_remove);

/* Performance cores of two threads, CPUs 0-15, and efficiency cores, 16-23. */
static void write_laptop(void)
{
    for (uint32_t cpu = 0; cpu < 16; cpu++)
        laid_out_write_siblings(cpu, cpu / 2 * 2, cpu / 2 * 2 + 1);
    laid_out_write("sys/devices/cpu_atom/cpus", "16-23\n");
}

/* 64 cores of two threads on two nodes. */
static void write_server(void)
{
    for (uint32_t cpu = 0; cpu < 128; cpu++)
        laid_out_write_siblings(cpu, cpu % 64, cpu % 64 + 64);
    laid_out_write("sys/devices/system/node/online", "0-1\n");
    laid_out_write("sys/devices/system/node/node0/cpulist", "0-31,64-95\n");
    laid_out_write("sys/devices/system/node/node1/cpulist", "32-63,96-127\n");
}

struct room_and_cores {
    struct cpu_room room;
    struct cpu_cores cores;
};

static struct room_and_cores machine_of(const char *allowed, double quota)
{
    struct room_and_cores machine = {.room = {.quota = quota}};
    cpu_list_parse(allowed, &machine.room.allowed);
    cpu_cores_read(laid_out_root, &machine.room, &machine.cores);
    return machine;
}

static struct worker_threads_plan plan_of(const char *allowed, double quota, uint32_t threads,
                                          bool pin)
{
    const struct worker_options options = {
        .threads = threads, .pin = pin, .cpu_placement = WORKER_PLACEMENT_AUTO};
    const struct room_and_cores machine = machine_of(allowed, quota);
    return worker_threads_plan(false, &options, &machine.cores);
}

static void expect_cpus(const cpu_set_t *cpus, const char *expected)
{
    cpu_set_t wanted;
    cpu_list_parse(expected, &wanted);
    cr_expect(CPU_EQUAL(cpus, &wanted), "%d CPUs, not those of \"%s\"", CPU_COUNT(cpus), expected);
}

static void expect_plan(const struct worker_threads_plan *plan, uint32_t n, bool is_placed,
                        bool spreads, const char *engine_cpus)
{
    cr_expect_eq(plan->n, n, "%u threads", plan->n);
    cr_expect_eq(plan->is_placed, is_placed);
    cr_expect_eq(plan->spreads_memory, spreads);
    expect_cpus(&plan->engine_cpus, engine_cpus);
}

#define EXPECT(allowed, quota, threads, ...)                                                       \
    do {                                                                                           \
        const struct worker_threads_plan plan = plan_of(allowed, quota, threads, false);           \
        expect_plan(&plan, __VA_ARGS__);                                                           \
    } while (0)

Test(worker_threads, without_files_each_cpu_computes_and_nothing_is_bound)
{
    EXPECT("0-1", 0, 0, 2, false, false, "");
    EXPECT("0-63", 0, 0, 64, false, false, "");
    EXPECT("0-63", 0, 5, 5, false, false, "");
    EXPECT("3", 0, 0, 1, false, false, "");
}

Test(worker_threads, a_quota_bounds_the_threads_rounded_up)
{
    EXPECT("0-63", 1.5, 0, 2, false, false, "");
    EXPECT("0-63", 0.25, 0, 1, false, false, "");
    EXPECT("0-63", 64.5, 0, 64, false, false, "");
    EXPECT("0-63", 1.5, 9, 9, false, false, ""); /* as configured */
}

Test(worker_threads, a_laptop_binds_threads_and_engine_to_the_fast_cores)
{
    write_laptop();
    EXPECT("0-23", 0, 0, 8, true, false, "0-15");
    EXPECT("0-23", 2, 0, 2, true, false, "0-15");
    EXPECT("16-23", 0, 0, 8, false, false, ""); /* a cpuset of slow cores alone */
    EXPECT("0-3,16", 0, 0, 2, true, false, "0-3");
    EXPECT("0-23", 0, 12, 12, false, false,
           ""); /* more than fast cores: the slow ones are needed */
}

Test(worker_threads, siblings_are_one_core)
{
    for (uint32_t cpu = 0; cpu < 8; cpu++)
        laid_out_write_siblings(cpu, cpu % 4, cpu % 4 + 4);
    EXPECT("0-7", 0, 0, 4, false, false, "");
    EXPECT("0,4", 0, 0, 1, false, false, "");
    EXPECT("4-7", 0, 0, 4, false, false, "");
}

Test(worker_threads, two_nodes_are_used_in_turn_when_one_is_too_small)
{
    write_server();
    EXPECT("0-127", 0, 0, 64, true, true, "0-31,64-95");
    EXPECT("0-127", 0, 32, 32, false, false, ""); /* fits on one node: the kernel chooses */
    EXPECT("32-63", 0, 0, 32, false, false, "");  /* a cpuset of one node */
    EXPECT("30-33", 0, 0, 4, true, true, "30-31");
    EXPECT("0-127", 8, 0, 8, false, false, "");
}

Test(worker_threads, pinned_threads_leave_the_first_cpu_to_the_engine)
{
    write_laptop();
    struct worker_threads_plan plan = plan_of("2-23", 0, 0, true);
    expect_plan(&plan, 7, false, false, "2");
    plan = plan_of("17-23", 0, 3, true);
    expect_plan(&plan, 3, false, false, "17");
    plan = plan_of("2-23", 0, 9, true);
    expect_plan(&plan, 9, false, false, ""); /* the pool takes the allowed CPUs in order then */
}

Test(worker_threads, placement_off_and_a_gpu_bind_nothing)
{
    write_laptop();
    const struct room_and_cores machine = machine_of("0-23", 0);
    struct worker_options options = {.cpu_placement = WORKER_PLACEMENT_OFF};
    struct worker_threads_plan plan = worker_threads_plan(false, &options, &machine.cores);
    expect_plan(&plan, 8, false, false, "");
    options.cpu_placement = WORKER_PLACEMENT_AUTO;
    plan = worker_threads_plan(true, &options, &machine.cores);
    expect_plan(&plan, 8, false, false, "");
}

/* ---- as a whole, with threads ---- */

static cpu_set_t seen[16];

static void note(void *arg, uint32_t index)
{
    (void)arg;
    sched_getaffinity(0, sizeof seen[index], &seen[index]);
}

/* The fast core of this machine that a slow one is laid out beside: its first allowed CPU. */
Test(worker_threads, threads_are_made_and_bound_by_the_plan)
{
    cpu_set_t own;
    char atom[16], allowed[32];
    uint32_t first = 0, other = CPU_SETSIZE - 1; /* no such CPU, or one that is slow */
    cr_assert_eq(sched_getaffinity(0, sizeof own, &own), 0);
    while (!CPU_ISSET(first, &own))
        first++;
    snprintf(atom, sizeof atom, "%u\n", other);
    snprintf(allowed, sizeof allowed, "%u,%u", first, other);
    laid_out_write("sys/devices/cpu_atom/cpus", atom);
    const struct room_and_cores machine = machine_of(allowed, 0);
    const struct worker_options options = {.cpu_placement = WORKER_PLACEMENT_AUTO};
    struct worker worker = {0};
    struct error error = {""};
    cr_assert_eq(worker_create_threads_on(&worker, &options, &machine.room, &machine.cores, &error),
                 STATUS_OK, "%s", error.text);
    cr_expect_eq(thread_pool_size(worker.threads), 1);
    char wanted[16];
    snprintf(wanted, sizeof wanted, "%u", first);
    expect_cpus(&worker.engine_cpus, wanted);
    thread_pool_destroy(worker.threads);
}

Test(worker_threads, as_many_threads_as_a_server_has_cores_compute)
{
    write_server();
    const struct room_and_cores machine = machine_of("0-127", 0);
    const struct worker_options options = {.cpu_placement = WORKER_PLACEMENT_AUTO};
    struct worker worker = {0};
    struct error error = {""};
    cr_assert_eq(worker_create_threads_on(&worker, &options, &machine.room, &machine.cores, &error),
                 STATUS_OK, "%s", error.text);
    cr_expect_eq(thread_pool_size(worker.threads), 64);
    cr_expect_eq(CPU_COUNT(&worker.engine_cpus), 64);
    thread_pool_run(worker.threads, 16, note, NULL);
    for (int i = 0; i < 16; i++)
        cr_expect_gt(CPU_COUNT(&seen[i]), 0, "index %d was computed", i);
    thread_pool_destroy(worker.threads);
}

Test(worker_threads, wrong_kernels_and_too_many_threads_are_named)
{
    const struct room_and_cores machine = machine_of("0-1", 0);
    const struct worker_options wrong = {.cpu_kernels = "abacus"};
    const struct worker_options many = {.threads = THREADS_MAX + 1};
    struct worker worker = {0};
    struct error error = {""};
    cr_expect_eq(worker_create_threads_on(&worker, &wrong, &machine.room, &machine.cores, &error),
                 STATUS_INVALID_ARGUMENT);
    cr_expect(strstr(error.text, "abacus"), "%s", error.text);
    cr_expect_eq(worker_create_threads_on(&worker, &many, &machine.room, &machine.cores, &error),
                 STATUS_INVALID_ARGUMENT);
    cr_expect(strstr(error.text, "threads 257"), "%s", error.text);
    cr_expect_null(worker.threads);
}
