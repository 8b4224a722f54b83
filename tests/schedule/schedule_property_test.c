/* schedule: whatever comes, blocks add up, budgets hold, everybody ends, and no tenant gets far ahead. The checks
 * of each step are pretend_engine's; every workload is made from a seed, which a failure prints. */
#include "base/random.h"
#include "tests/schedule/support/pretend_engine.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

enum { N_OPERATIONS = 1000000, OPERATIONS_A_SEED = 10000, STEPS_TO_END_MAX = 100000 };

static const enum schedule_policy POLICIES[] = {SCHEDULE_NO_EVICT, SCHEDULE_MAX_UTILIZATION,
                                                SCHEDULE_STATIC_BATCH};
enum { N_POLICIES = sizeof POLICIES / sizeof *POLICIES };

static uint32_t between(struct random *random, uint32_t low, uint32_t high)
{
    return low + (uint32_t)random_below(random, high - low + 1);
}

static bool one_in(struct random *random, uint32_t n)
{
    return random_below(random, n) == 0;
}

/* ---- random operations ---- */

static struct schedule_options random_options(struct random *random)
{
    uint32_t block_tokens = 1u << random_below(random, 5);
    struct schedule_options options = {
        .policy = POLICIES[random_below(random, N_POLICIES)],
        .n_blocks = between(random, 4, 80),
        .block_tokens = block_tokens,
        .batch_tokens = block_tokens + between(random, 1, one_in(random, 2) ? 4 : 100),
        .chunk_tokens = block_tokens + between(random, 0, 60),
        .sequences_max = between(random, 1, 24),
        .waiting_max = between(random, 1, 24),
        .headroom_blocks = between(random, 0, 4),
        .aging_ms = between(random, 0, 50),
        .tenant_share_percent = one_in(random, 2) ? 100 : between(random, 1, 99),
    };
    if (one_in(random, 2)) { /* one group of all tokens, the others with windows */
        options.n_groups = between(random, 1, 4);
        options.span_limits[0] = UINT32_MAX;
        for (uint32_t i = 1; i < options.n_groups; i++)
            options.span_limits[i] = between(random, 1, 8);
    }
    if (one_in(random, 3)) { /* a pool that is too small, and shared: what pauses most */
        options.policy = SCHEDULE_MAX_UTILIZATION;
        options.n_blocks = between(random, 10, 30);
        options.sequences_max = 24;
        options.headroom_blocks = 0;
        options.tenant_share_percent = 100;
    }
    return options;
}

static struct pretend_arrival random_arrival(const struct pretend_engine *engine,
                                             struct random *random)
{
    uint32_t pool_tokens = engine->options.n_blocks * engine->options.block_tokens;
    uint32_t size_max = one_in(random, 8) ? pool_tokens : pool_tokens / 6 + 1;
    struct pretend_arrival arrival = {
        .tenant = between(random, 0, PRETEND_TENANTS - 1),
        .weight = between(random, 1, 5),
        .priority = (int32_t)between(random, 0, 20) - 10,
        .prompt_tokens = between(random, 1, size_max),
        .max_new_tokens = one_in(random, 6) ? 0 : between(random, 1, size_max),
        .group = !one_in(random, 3) ? between(random, 0, PRETEND_GROUPS - 1) : PRETEND_NO_GROUP,
    };
    arrival.generates = between(random, 0, arrival.max_new_tokens);
    if (arrival.max_new_tokens == 0)
        arrival.lease_steps = between(random, 0, 9);
    if (one_in(random, 3))
        arrival.runs_ahead = between(random, 1, 9);
    if (arrival.max_new_tokens > 0 && one_in(random, 4)) {
        arrival.fetch_steps = between(random, 1, 9);
        arrival.fetch_fails = one_in(random, 4);
    }
    return arrival;
}

static schedule_id random_known(const struct pretend_engine *engine, struct random *random)
{
    schedule_id id = (schedule_id)random_below(random, engine->requests_max);
    for (uint32_t i = 0; i < engine->requests_max; i++, id = (id + 1) % engine->requests_max)
        if (engine->requests[id].is_known)
            return id;
    return engine->requests_max;
}

static void operate(struct pretend_engine *engine, struct random *random, uint64_t now_ms)
{
    schedule_id id;
    uint32_t operation = (uint32_t)random_below(random, 20);
    if (operation < 7) {
        struct pretend_arrival arrival = random_arrival(engine, random);
        enum status status = pretend_add(engine, &arrival, now_ms, &id);
        cr_assert(status == STATUS_OK || status == STATUS_NO_BLOCKS ||
                  status == STATUS_QUEUE_FULL || status == STATUS_SHARE_FULL);
    } else if (operation == 7) {
        id = random_known(engine, random);
        if (id < engine->requests_max)
            pretend_cancel(engine, id);
    } else if (operation == 8) {
        pretend_steal(engine, (uint32_t)random_below(random, 4));
    } else if (operation == 9) {
        pretend_give_back(engine, (uint32_t)random_below(random, engine->n_stolen + 1));
    } else if (operation == 10 && one_in(random, 20)) {
        id = random_known(engine, random);
        if (id < engine->requests_max && engine->requests[id].is_admitted)
            pretend_give_up(engine, id);
    } else {
        pretend_step(engine);
    }
}

/* All that is known ends when nothing more comes: no deadlock, and no pausing in circles. */
static void run_dry(struct pretend_engine *engine, uint64_t seed)
{
    struct schedule_counts counts;
    uint32_t n_steps = 0;
    pretend_give_back(engine, engine->n_stolen);
    for (schedule_count(engine->schedule, &counts); counts.n_waiting + counts.n_admitted > 0;
         schedule_count(engine->schedule, &counts)) {
        pretend_step(engine);
        cr_assert_lt(++n_steps, STEPS_TO_END_MAX, "seed %llu: %u wait, %u are admitted",
                     (unsigned long long)seed, counts.n_waiting, counts.n_admitted);
    }
}

struct totals {
    uint64_t pauses, hash;
};

static void run_seed(uint64_t seed, struct totals *totals)
{
    struct random random;
    struct pretend_engine engine;
    struct schedule_counts counts;
    random_init(&random, seed);
    struct schedule_options options = random_options(&random);
    pretend_init(&engine, &options);
    for (uint32_t i = 0; i < OPERATIONS_A_SEED; i++)
        operate(&engine, &random, i / 4);
    run_dry(&engine, seed);
    schedule_count(engine.schedule, &counts);
    totals->pauses += counts.pauses - engine.n_given_up;
    totals->hash = totals->hash * 31 + engine.hash;
    pretend_finish(&engine);
}

Test(schedule_property, a_million_random_operations_keep_every_rule_and_all_requests_end)
{
    struct totals totals = {0};
    for (uint64_t seed = 0; seed < N_OPERATIONS / OPERATIONS_A_SEED; seed++)
        run_seed(seed, &totals);
    cr_assert_gt(totals.pauses, 1000); /* the hard part was met */
}

Test(schedule_property, the_same_calls_get_the_same_answers)
{
    struct totals first = {0}, second = {0}, other = {0};
    for (uint64_t seed = 1000; seed < 1004; seed++) {
        run_seed(seed, &first);
        run_seed(seed, &second);
        run_seed(seed + 4, &other);
    }
    cr_assert_eq(first.hash, second.hash);
    cr_assert_neq(first.hash, other.hash);
}

/* ---- fairness ---- */

struct backlog {
    struct pretend_arrival like; /* sizes are drawn up to these */
    uint32_t n_deep;             /* so many of it wait always */
};

static void keep_backlog(struct pretend_engine *engine, const struct backlog *backlog,
                         struct random *random, uint64_t now_ms)
{
    uint32_t n_waiting = 0;
    for (uint32_t i = 0; i < engine->requests_max; i++)
        n_waiting += engine->requests[i].is_known && !engine->requests[i].is_admitted &&
                     engine->requests[i].arrival.tenant == backlog->like.tenant;
    for (; n_waiting < backlog->n_deep; n_waiting++) {
        schedule_id id;
        struct pretend_arrival arrival = backlog->like;
        arrival.prompt_tokens = between(random, 1, backlog->like.prompt_tokens);
        arrival.max_new_tokens = between(random, 1, backlog->like.max_new_tokens);
        arrival.generates = between(random, 1, arrival.max_new_tokens);
        cr_assert_eq(pretend_add(engine, &arrival, now_ms, &id), STATUS_OK);
    }
}

static const struct schedule_options MIDDLING = {
    .n_blocks = 64,
    .block_tokens = 16,
    .batch_tokens = 256,
    .chunk_tokens = 128,
    .sequences_max = 16,
    .waiting_max = 200,
    .aging_ms = 100,
    .tenant_share_percent = 100,
};

/* U of schedule.h, for the requests of this test. */
static uint64_t most_admitted(const struct schedule_options *options, uint32_t longest)
{
    return options->policy == SCHEDULE_MAX_UTILIZATION
               ? (uint64_t)options->sequences_max * longest
               : (uint64_t)options->n_blocks * options->block_tokens;
}

/* Returns how much was served over the bound. */
static double run_backlogged(enum schedule_policy policy, const struct backlog tenants[2])
{
    struct random random;
    struct pretend_engine engine;
    struct schedule_options options = MIDDLING;
    double weight_a = tenants[0].like.weight, weight_b = tenants[1].like.weight;
    uint32_t longest = 0;
    options.policy = policy;
    random_init(&random, 7);
    pretend_init(&engine, &options);
    for (int i = 0; i < 2; i++) {
        uint32_t length = tenants[i].like.prompt_tokens + tenants[i].like.max_new_tokens;
        longest = length > longest ? length : longest;
    }
    double least = weight_a < weight_b ? weight_a : weight_b;
    double bound = 2.0 * (double)most_admitted(&options, longest) / least, worst = 0;
    for (uint32_t step = 0; step < 20000; step++) {
        keep_backlog(&engine, &tenants[0], &random, step);
        keep_backlog(&engine, &tenants[1], &random, step);
        pretend_step(&engine);
        double a = (double)engine.served[tenants[0].like.tenant] / weight_a;
        double b = (double)engine.served[tenants[1].like.tenant] / weight_b;
        double apart = a > b ? a - b : b - a;
        worst = apart > worst ? apart : worst;
    }
    double served = (double)(engine.served[0] + engine.served[1]) / (weight_a + weight_b);
    pretend_finish(&engine);
    cr_assert_leq(worst, bound, "%s: %.0f apart, bound %.0f", schedule_policy_name(policy), worst,
                  bound);
    return served / bound;
}

Test(schedule_property, two_backlogged_tenants_stay_within_the_bound_of_each_other)
{
    const struct backlog pairs[][2] = {
        /* as many of each, always more than are admitted at once */
        {{{0, 1, 0, 100, 100, 0, PRETEND_NO_GROUP, 0, false, 0, 0}, 17},
         {{1, 1, 0, 100, 100, 0, PRETEND_NO_GROUP, 0, false, 0, 0}, 17}},
        /* a crowd whose requests are urgent against few, but more than are admitted at once */
        {{{0, 1, 9, 100, 100, 0, PRETEND_NO_GROUP, 0, false, 0, 0}, 150},
         {{1, 1, 0, 100, 100, 0, PRETEND_NO_GROUP, 0, false, 0, 0}, 17}},
        /* long prompts against long answers */
        {{{0, 1, 0, 400, 4, 0, PRETEND_NO_GROUP, 0, false, 0, 0}, 20},
         {{1, 1, 0, 8, 300, 0, PRETEND_NO_GROUP, 0, false, 0, 0}, 20}},
        /* weights */
        {{{0, 1, 0, 200, 100, 0, PRETEND_NO_GROUP, 0, false, 0, 0}, 20},
         {{1, 4, 0, 60, 60, 0, PRETEND_NO_GROUP, 0, false, 0, 0}, 20}},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        for (int policy = 0; policy < N_POLICIES; policy++)
            cr_assert_gt(run_backlogged(POLICIES[policy], pairs[i]), 8,
                         "pair %zu: too little was served to tell", i);
}

/* ---- starvation ---- */

/* Steps from its arrival to its end, beside a crowd that never ends. */
static uint32_t steps_beside_a_crowd(enum schedule_policy policy, const struct backlog *crowd,
                                     const struct pretend_arrival *arrival)
{
    struct random random;
    struct pretend_engine engine;
    struct schedule_options options = MIDDLING;
    schedule_id id = 0;
    uint64_t seq = 0;
    uint32_t n_steps = 0;
    options.policy = policy;
    random_init(&random, 11);
    pretend_init(&engine, &options);
    for (uint32_t step = 0; step < 300 + n_steps && n_steps < 5000; step++) {
        keep_backlog(&engine, crowd, &random, step);
        if (step == 299) {
            cr_assert_eq(pretend_add(&engine, arrival, step, &id), STATUS_OK);
            seq = engine.requests[id].seq;
        }
        pretend_step(&engine);
        bool is_there = engine.requests[id].is_known && engine.requests[id].seq == seq;
        n_steps += step >= 299 && is_there;
    }
    pretend_finish(&engine);
    return n_steps;
}

Test(schedule_property, a_large_request_of_low_priority_ends_beside_a_crowd_that_never_does)
{
    /* Almost the whole pool, and of least priority: overtaken by what arrives in 109 * 100 ms, a step a ms;
     * beside its own tenant only. */
    const struct backlog crowd = {{0, 1, 9, 60, 60, 0, PRETEND_NO_GROUP, 0, false, 0, 0}, 30};
    const struct pretend_arrival of_other = {1, 1,     -100, 900, 100, 100, PRETEND_NO_GROUP,
                                             0, false, 0,    0};
    const struct pretend_arrival of_same = {0, 1,     -10, 900, 100, 100, PRETEND_NO_GROUP,
                                            0, false, 0,   0};
    for (int policy = 0; policy < N_POLICIES; policy++) {
        uint32_t n_steps = steps_beside_a_crowd(POLICIES[policy], &crowd, &of_other);
        cr_assert_lt(n_steps, 1000, "%s: %u steps", schedule_policy_name(POLICIES[policy]),
                     n_steps);
        n_steps = steps_beside_a_crowd(POLICIES[policy], &crowd, &of_same);
        cr_assert_gt(n_steps, 1000, "%s: priority is nothing",
                     schedule_policy_name(POLICIES[policy])); /* 1900 ms */
        cr_assert_lt(n_steps, 4000, "%s: %u steps", schedule_policy_name(POLICIES[policy]),
                     n_steps);
    }
}
