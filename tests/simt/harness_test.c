/* harness: each thing that a kernel may not do is reported by name, and what it may do is right in every schedule. */
#include "kernels/cuda/launch.h"
#include "tests/simt/harness_kernels.h"
#include "tests/simt/simt_device.h"

#include <criterion/criterion.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 256, SCHEDULES = 4 };

struct fixture {
    struct device *device;
    struct device_memory values, counters;
    struct harness_data data;
};

static struct fixture fixture;

static void set_up(void)
{
    fixture.device = simt_device_open(&(struct simt_options){0});
    cr_assert_eq(
        device_allocate(fixture.device, DEVICE_WORKSPACE, N * sizeof(float), &fixture.values),
        STATUS_OK);
    cr_assert_eq(
        device_allocate(fixture.device, DEVICE_WORKSPACE, 8 * sizeof(uint32_t), &fixture.counters),
        STATUS_OK);
    fixture.data = (struct harness_data){(float *)(void *)fixture.values.base,
                                         (uint32_t *)(void *)fixture.counters.base, N};
}

static void tear_down(void)
{
    device_free(fixture.device, &fixture.values);
    device_free(fixture.device, &fixture.counters);
    device_close(fixture.device);
}

TestSuite(harness, .init = set_up, .fini = tear_down);

static struct simt_schedule schedule_number(uint32_t i)
{
    return (struct simt_schedule){.copies_late = i % 2 == 1, .seed = i < 2 ? 0 : 11 + i};
}

static void fill(void)
{
    for (uint32_t i = 0; i < N; i++)
        fixture.data.values[i] = (float)i;
    memset(fixture.data.counters, 0, 8 * sizeof(uint32_t));
}

struct attempt {
    void (*run)(const struct attempt *attempt);
    const char *kernel;
    uint32_t n_ctas;
    struct simt_schedule schedule;
    void *address; /* of a launch */
    uint32_t threads;
};

/* What a process of its own says until it ends by SIGABRT, as it is to. */
static void said_in(const struct attempt *attempt, char *said, size_t bytes)
{
    int ends[2], code;
    cr_assert_eq(pipe(ends), 0);
    fill();
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        signal(SIGABRT, SIG_DFL);
        attempt->run(attempt);
        _exit(0);
    }
    close(ends[1]);
    size_t n = 0;
    for (ssize_t got = 1; got > 0 && n + 1 < bytes; n += (size_t)(got > 0 ? got : 0))
        got = read(ends[0], said + n, bytes - 1 - n);
    said[n] = '\0';
    close(ends[0]);
    cr_assert_eq(waitpid(child, &code, 0), child);
    cr_assert(WIFSIGNALED(code) && WTERMSIG(code) == SIGABRT, "nothing was reported: %s", said);
}

static void run_kernel(const struct attempt *attempt)
{
    harness_run(attempt->kernel, attempt->n_ctas, &fixture.data, &attempt->schedule);
}

static void said_by(const char *kernel, uint32_t n_ctas, struct simt_schedule schedule, char *said,
                    size_t bytes)
{
    const struct attempt attempt = {run_kernel, kernel, n_ctas, schedule, NULL, 0};
    said_in(&attempt, said, bytes);
}

/* In every schedule. */
static void expect_report(const char *kernel, uint32_t n_ctas, const char *sentence)
{
    for (uint32_t i = 0; i < SCHEDULES; i++) {
        char said[4096];
        said_by(kernel, n_ctas, schedule_number(i), said, sizeof said);
        cr_assert(strstr(said, sentence), "%s, schedule %u: \"%s\" is not in: %s", kernel, i,
                  sentence, said);
    }
}

static void run(const char *kernel, uint32_t n_ctas, struct simt_schedule schedule)
{
    fill();
    harness_run(kernel, n_ctas, &fixture.data, &schedule);
}

/* ---- what is right ---- */

Test(harness, copies_arrive_in_every_schedule)
{
    for (uint32_t s = 0; s < SCHEDULES; s++) {
        run("copies", 4, schedule_number(s));
        for (uint32_t i = 0; i < N; i++)
            cr_assert_eq(fixture.data.values[i], 2.f * (float)(i ^ 63));
    }
}

Test(harness, ctas_that_are_ordered_by_an_atomic_operation_may_share)
{
    for (uint32_t s = 0; s < SCHEDULES; s++) {
        struct simt_schedule schedule = schedule_number(s);
        schedule.resident = s % 2 ? 7 : 0;
        run("last_adds", 7, schedule);
        cr_assert_eq(fixture.data.values[7], 28.f);
    }
}

Test(harness, ctas_that_are_live_at_once_wait_for_each_other)
{
    for (uint32_t s = 0; s < SCHEDULES; s++) {
        struct simt_schedule schedule = schedule_number(s);
        schedule.resident = 6;
        run("chain", 6, schedule);
        cr_assert_eq(fixture.data.values[0], 6.f);
    }
}

Test(harness, ctas_that_are_not_live_are_waited_for_in_vain)
{
    char said[4096];
    said_by("chain", 6, (struct simt_schedule){.resident = 2}, said, sizeof said);
    cr_assert(strstr(said, "endless spinning in CTA"), "%s", said);
    cr_assert(strstr(said, "lane 0 spin in load_acquire"), "%s", said);
}

Test(harness, named_barriers_hand_over)
{
    for (uint32_t s = 0; s < SCHEDULES; s++) {
        run("hands_over", 1, schedule_number(s));
        for (uint32_t i = 0; i < 128; i++)
            cr_assert_eq(fixture.data.values[i], (float)(i / 32 + 31 - i % 32));
    }
}

Test(harness, halves_of_a_warp_meet_for_themselves)
{
    for (uint32_t s = 0; s < SCHEDULES; s++) {
        run("halves", 1, schedule_number(s));
        for (uint32_t i = 0; i < 64; i++) {
            const uint32_t lane = i % 32;
            const float expected = lane < 16 ? (float)(120 + (lane ^ 1) + 8000) : 376.f;
            cr_assert_eq(fixture.data.values[i], expected, "%u: %f", i,
                         (double)fixture.data.values[i]);
        }
    }
}

Test(harness, bank_conflicts_are_counted)
{
    simt_take_counts();
    run("one_bank", 1, (struct simt_schedule){.count_banks = true});
    const struct simt_counts counts = simt_take_counts();
    cr_assert_eq(counts.shared_accesses, 1);
    cr_assert_eq(counts.bank_conflicts, 31);
}

/* ---- what is reported ---- */

Test(harness, a_deadlock_names_lanes_and_collective)
{
    expect_report("deadlock", 1,
                  "warp 1: lanes 0-15 at shuffle_xor of lanes ffffffff; lanes 16-31 ended");
    expect_report("half_at_a_barrier", 1, "at barrier_sync (barrier 3: 32 have arrived)");
}

Test(harness, lanes_that_diverge_are_named)
{
    expect_report("diverges", 1, "the warp has diverged");
    expect_report("masks_differ", 1, "while others of its warp meet lanes");
    expect_report("not_of_the_mask", 1, "calls warp_sync of lanes 000000f0 and is none of them");
}

Test(harness, a_copy_that_is_never_waited_for)
{
    char said[4096];
    said_by("never_waits", 1, schedule_number(1), said, sizeof said);
    cr_assert(strstr(said, "asynchronous copies that it never waited for"), "%s", said);
}

Test(harness, a_copy_that_is_read_too_early_is_poison_when_copies_are_late)
{
    run("waits_too_little", 1, schedule_number(0));
    cr_assert_eq(fixture.data.values[0], 126.f);
    run("waits_too_little", 1, schedule_number(1));
    cr_assert(isnan(fixture.data.values[0]));
}

Test(harness, a_missing_barrier_shows_in_some_order)
{
    uint32_t n_wrong = 0;
    for (uint32_t s = 0; s < SCHEDULES; s++) {
        run("no_barrier", 1, schedule_number(s));
        for (uint32_t i = 0; i < 64; i++)
            n_wrong += fixture.data.values[i] != (float)(i ^ 63);
    }
    cr_assert_gt(n_wrong, 0);
}

Test(harness, memory_that_is_not_the_devices)
{
    expect_report("behind_the_end", 1, "which is in no allocation: ");
    expect_report("of_the_host", 1, "which is in no allocation");
}

Test(harness, memory_behind_the_shared)
{
    expect_report("behind_shared", 1, "of 4096 of shared memory");
    expect_report("behind_shared_by_address", 1, "4 bytes at 4096 of 4096 of shared memory");
}

Test(harness, addresses_that_are_not_aligned)
{
    expect_report("misaligned", 1, "a load of 16 bytes at ");
    expect_report("misaligned_word", 1, "which is not aligned to them");
    expect_report("misaligned_matrix", 1, "of shared memory are not aligned to 16");
}

Test(harness, ctas_that_touch_the_same_bytes)
{
    expect_report("all_write_one", 3, "nothing orders the two");
    expect_report("reads_a_neighbours", 3, "nothing orders the two");
    expect_report("adds_unfenced", 3, "nothing orders the two");
}

Test(harness, bounds_are_looked_at_where_nothing_else_is)
{
    const struct simt_schedule schedule = {.only_bounds = true};
    char said[4096];
    run("all_write_one", 3, schedule);
    said_by("behind_the_end", 1, schedule, said, sizeof said);
    cr_assert(strstr(said, "which is in no allocation: "), "%s", said);
    said_by("misaligned_word", 1, schedule, said, sizeof said);
    cr_assert(strstr(said, "which is not aligned to them"), "%s", said);
    said_by("behind_shared", 1, schedule, said, sizeof said);
    cr_assert(strstr(said, "of 4096 of shared memory"), "%s", said);
}

/* ---- launches ---- */

static void launch_add(const struct attempt *attempt)
{
    const struct add_parameters parameters = {attempt->address, fixture.data.values, N};
    const struct device_shape shape = {{1, 1, 1}, attempt->threads, 0};
    device_bind(fixture.device);
    cuda_launch(CUDA_add, &shape, &parameters);
}

static void expect_refusal(void *address, uint32_t threads, const char *sentence)
{
    char said[4096];
    const struct attempt attempt = {.run = launch_add, .address = address, .threads = threads};
    said_in(&attempt, said, sizeof said);
    cr_assert(strstr(said, sentence), "\"%s\" is not in: %s", sentence, said);
}

Test(harness, a_launch_that_may_not_be)
{
    static float own[N];
    struct error error = {""};
    cr_assert_eq(device_load(fixture.device, &cuda_image, &error), STATUS_OK, "%s", error.text);
    expect_refusal(own, 256, "add: y is 0x");
}
