#include "tests/simt/harness_rig.h"

#include "tests/simt/simt_device.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct harness_rig harness_rig;

void harness_rig_begin(void)
{
    harness_rig.device = simt_device_open(&(struct simt_options){0});
    cr_assert_eq(device_allocate(harness_rig.device, DEVICE_WORKSPACE,
                                 HARNESS_VALUES * sizeof(float), &harness_rig.values),
                 STATUS_OK);
    cr_assert_eq(device_allocate(harness_rig.device, DEVICE_WORKSPACE, 8 * sizeof(uint32_t),
                                 &harness_rig.counters),
                 STATUS_OK);
    harness_rig.data = (struct harness_data){(float *)(void *)harness_rig.values.base,
                                             (uint32_t *)(void *)harness_rig.counters.base,
                                             HARNESS_VALUES};
}

void harness_rig_end(void)
{
    device_free(harness_rig.device, &harness_rig.values);
    device_free(harness_rig.device, &harness_rig.counters);
    device_close(harness_rig.device);
}

struct simt_schedule harness_schedule(uint32_t i)
{
    return (struct simt_schedule){.copies_late = i % 2 == 1, .seed = i < 2 ? 0 : 11 + i};
}

static void fill(void)
{
    for (uint32_t i = 0; i < HARNESS_VALUES; i++)
        harness_rig.data.values[i] = (float)i;
    memset(harness_rig.data.counters, 0, 8 * sizeof(uint32_t));
}

void harness_rig_run(const char *kernel, uint32_t n_ctas, struct simt_schedule schedule)
{
    fill();
    harness_run(kernel, n_ctas, &harness_rig.data, &schedule);
}

/* Its text as far as it fits, and how it ended. */
static int run_apart(const struct harness_attempt *attempt, char *said, size_t bytes)
{
    int ends[2], code;
    char rest[512];
    cr_assert_eq(pipe(ends), 0);
    fill();
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        signal(SIGABRT, SIG_DFL);
        attempt->run(attempt);
        _exit(0);
    }
    close(ends[1]);
    size_t n = 0;
    for (ssize_t got = 1; got > 0 && n + 1 < bytes; n += (size_t)(got > 0 ? got : 0))
        got = read(ends[0], said + n, bytes - 1 - n);
    said[n] = '\0';
    while (read(ends[0], rest, sizeof rest) > 0) {
    }
    close(ends[0]);
    cr_assert_eq(waitpid(child, &code, 0), child);
    return code;
}

void harness_rig_said_in(const struct harness_attempt *attempt, char *said, size_t bytes)
{
    const int code = run_apart(attempt, said, bytes);
    cr_assert(WIFSIGNALED(code) && WTERMSIG(code) == SIGABRT, "nothing was reported: %s", said);
}

static void run_kernel(const struct harness_attempt *attempt)
{
    harness_run(attempt->kernel, attempt->n_ctas, &harness_rig.data, &attempt->schedule);
}

void harness_rig_said(const char *kernel, uint32_t n_ctas, struct simt_schedule schedule,
                      char *said, size_t bytes)
{
    const struct harness_attempt attempt = {run_kernel, kernel, n_ctas, schedule, NULL, 0};
    harness_rig_said_in(&attempt, said, bytes);
}

void harness_rig_expect(const char *kernel, uint32_t n_ctas, uint32_t cluster, const char *sentence)
{
    for (uint32_t i = 0; i < SCHEDULES; i++) {
        char said[4096];
        struct simt_schedule schedule = harness_schedule(i);
        schedule.cluster = cluster;
        harness_rig_said(kernel, n_ctas, schedule, said, sizeof said);
        cr_assert(strstr(said, sentence), "%s, schedule %u: \"%s\" is not in: %s", kernel, i,
                  sentence, said);
    }
}

void harness_rig_races(const char *kernel, uint32_t n_ctas, struct simt_schedule schedule,
                       char *said, size_t bytes)
{
    const struct harness_attempt attempt = {run_kernel, kernel, n_ctas, schedule, NULL, 0};
    (void)run_apart(&attempt, said, bytes);
}
