/*
 * schedule_bench - what a decision costs: microseconds a step of the scheduler alone, by policy.
 *
 *     schedule_bench [SEQUENCES]      256 by default
 *
 * A step is schedule_capacity, schedule_batch and schedule_computed for all of its work; who ended is replaced
 * by a new request, which is not counted. The pool holds two thirds of what all would need in the end, so that
 * max-utilization pauses. work: pieces a step, on average. filling: the step that admits all of them at once.
 */
#include "base/clock.h"
#include "base/random.h"
#include "schedule/schedule.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define STEPS        2000
#define ROUNDS       5
#define BLOCK_TOKENS 16u
#define GOAL_US      50.0 /* at 256 sequences */

struct bench {
    struct schedule *schedule;
    struct random random;
    uint32_t n_free, n_tenants, n_entries;
    uint32_t *n_blocks; /* [n_entries] held, by id */
};

static void add_one(struct bench *bench, uint64_t now_ms)
{
    schedule_id id;
    struct schedule_request request = {
        .tenant = random_below(&bench->random, bench->n_tenants),
        .weight = 1,
        .priority = (int32_t)random_below(&bench->random, 3),
        .prompt_tokens = 32 + (uint32_t)random_below(&bench->random, 480),
        .max_new_tokens = 64 + (uint32_t)random_below(&bench->random, 192),
    };
    enum status status = schedule_add(bench->schedule, &request, now_ms, NULL, &id);
    assert(status == STATUS_OK);
    bench->n_blocks[id] = 0;
}

static void hold(struct bench *bench, schedule_id id, uint32_t n_blocks)
{
    assert(bench->n_free + bench->n_blocks[id] >= n_blocks);
    bench->n_free = bench->n_free + bench->n_blocks[id] - n_blocks;
    bench->n_blocks[id] = n_blocks;
}

/* Returns what the scheduler took of it, in ns. */
static uint64_t step(struct bench *bench, uint32_t *n_work)
{
    struct schedule_changes changes;
    struct schedule_batch batch;
    uint64_t begin_ns = clock_now_ns();
    schedule_capacity(bench->schedule,
                      &(struct schedule_room){bench->n_free, .n_handovers_free = UINT32_MAX},
                      &changes);
    schedule_batch(bench->schedule, &batch);
    for (uint32_t i = 0; i < batch.n; i++)
        schedule_computed(bench->schedule, batch.work[i].id, batch.work[i].n_tokens,
                          batch.work[i].draws);
    uint64_t ns = clock_now_ns() - begin_ns;
    for (uint32_t i = 0; i < changes.n_paused; i++)
        hold(bench, changes.paused[i], 0);
    for (uint32_t i = 0; i < changes.n_admitted; i++)
        hold(bench, changes.admitted[i].id, changes.admitted[i].n_blocks);
    for (uint32_t i = 0; i < batch.n; i++)
        hold(bench, batch.work[i].id, batch.work[i].n_blocks);
    *n_work = batch.n;
    return ns;
}

static void replace_ended(struct bench *bench, uint64_t now_ms)
{
    for (schedule_id id = 0; id < bench->n_entries; id++) {
        if (schedule_state_of(bench->schedule, id) != SCHEDULE_DONE)
            continue;
        hold(bench, id, 0);
        schedule_remove(bench->schedule, id);
        add_one(bench, now_ms);
    }
}

struct figures {
    double filling_us, mean_us, p99_us, n_work;
};

static int compare(const void *a, const void *b)
{
    uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;
    return (first > second) - (first < second);
}

static struct figures measure(enum schedule_policy policy, uint32_t sequences, uint32_t n_tenants)
{
    const struct schedule_options options = {.policy = policy,
                                             .n_blocks = sequences * 18,
                                             .block_tokens = BLOCK_TOKENS,
                                             .batch_tokens = 2048,
                                             .chunk_tokens = 512,
                                             .sequences_max = sequences,
                                             .waiting_max = 2 * sequences,
                                             .headroom_blocks = sequences / 8,
                                             .aging_ms = 1000,
                                             .tenant_share_percent = 100};
    struct bench bench = {.n_tenants = n_tenants, .n_free = options.n_blocks};
    static uint64_t step_ns[STEPS];
    uint64_t sum_ns = 0, n_work_sum = 0;
    uint32_t n_work;
    bench.n_entries = 2 * sequences;
    bench.n_blocks = calloc(bench.n_entries, sizeof *bench.n_blocks);
    random_init(&bench.random, 1);
    enum status status = schedule_create(&options, NULL, &bench.schedule);
    assert(bench.n_blocks && status == STATUS_OK);
    for (uint32_t i = 0; i < sequences; i++)
        add_one(&bench, 0);
    step_ns[0] = step(&bench, &n_work);
    uint64_t filling_ns = step_ns[0];
    for (uint32_t i = 0; i < sequences; i++)
        add_one(&bench, 0);
    for (uint32_t i = 1; i < STEPS; i++) {
        replace_ended(&bench, i);
        step_ns[i] = step(&bench, &n_work);
        sum_ns += step_ns[i];
        n_work_sum += n_work;
    }
    qsort(step_ns, STEPS, sizeof *step_ns, compare);
    schedule_destroy(bench.schedule);
    free(bench.n_blocks);
    return (struct figures){.filling_us = (double)filling_ns / NS_PER_US,
                            .mean_us = (double)sum_ns / (STEPS - 1) / NS_PER_US,
                            .p99_us = (double)step_ns[STEPS * 99 / 100] / NS_PER_US,
                            .n_work = (double)n_work_sum / (STEPS - 1)};
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

int main(int argc, char **argv)
{
    long sequences = argc > 1 ? strtol(argv[1], NULL, 10) : 256;
    if (sequences < 1 || sequences > 100000) {
        fprintf(stderr, "schedule_bench [SEQUENCES], 1 to 100000\n");
        return 2;
    }
    printf("%ld sequences, us a step, best of %d; the goal at 256 is %.0f\n", sequences, ROUNDS,
           GOAL_US);
    printf("policy           tenants  work     mean      p99  filling\n");
    for (int policy = SCHEDULE_NO_EVICT; policy <= SCHEDULE_STATIC_BATCH; policy++)
        for (uint32_t n_tenants = 1; n_tenants <= 256; n_tenants *= 16) {
            struct figures best = {1e9, 1e9, 1e9, 0};
            for (int i = 0; i < ROUNDS; i++) {
                struct figures figures = measure(policy, (uint32_t)sequences, n_tenants);
                best.filling_us = least(best.filling_us, figures.filling_us);
                best.mean_us = least(best.mean_us, figures.mean_us);
                best.p99_us = least(best.p99_us, figures.p99_us);
                best.n_work = figures.n_work;
            }
            printf("%-16s %7u %5.0f %8.1f %8.1f %8.1f\n", schedule_policy_name(policy), n_tenants,
                   best.n_work, best.mean_us, best.p99_us, best.filling_us);
        }
    return 0;
}
