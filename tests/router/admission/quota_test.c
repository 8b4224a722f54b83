/* quota: over any time no more than capacity and rate allow; the wait that is named is exact to the nanosecond; what is
 * given back can be taken again, and debts are worked off. */
#include "base/clock.h"
#include "base/random.h"
#include "router/admission/quota.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static const uint64_t START_NS = 123456789;

Test(quota, begins_full_and_fills_at_its_rate)
{
    struct quota quota;
    quota_init_a_second(&quota, 4000, START_NS);
    for (int i = 0; i < 4; i++)
        quota_take(&quota, 1, START_NS);
    cr_assert_eq(quota_wait_ns(&quota, 1, START_NS), NS_PER_S / 4);
    cr_assert_eq(quota_wait_ns(&quota, 1, START_NS + NS_PER_S / 4 - 1), 1);
    cr_assert_eq(quota_wait_ns(&quota, 1, START_NS + NS_PER_S / 4), 0);
    cr_assert_eq(quota_wait_ns(&quota, 1, START_NS + 3600 * NS_PER_S), 0);
    quota_take(&quota, 4, START_NS + 3600 * NS_PER_S);
    cr_assert_neq(quota_wait_ns(&quota, 1, START_NS + 3600 * NS_PER_S), 0,
                  "no more than a second's");
}

Test(quota, less_than_one_a_second_still_lets_one_in)
{
    struct quota quota;
    quota_init_a_second(&quota, 1, START_NS); /* one in a thousand seconds */
    quota_take(&quota, 1, START_NS);
    cr_assert_eq(quota_wait_ns(&quota, 1, START_NS), 1000 * NS_PER_S);
}

Test(quota, more_than_a_minutes_is_let_in_when_full_and_leaves_a_debt)
{
    struct quota quota;
    quota_init_a_minute(&quota, 600, START_NS);
    cr_assert_eq(quota_wait_ns(&quota, 1800, START_NS), 0);
    quota_take(&quota, 1800, START_NS);
    cr_assert_eq(quota_wait_ns(&quota, 1, START_NS), 120 * NS_PER_S + NS_PER_S / 10);
    quota_give_back(&quota, 1500, START_NS);
    cr_assert_eq(quota_wait_ns(&quota, 300, START_NS), 0);
    cr_assert_eq(quota_wait_ns(&quota, 301, START_NS), NS_PER_S / 10);
}

Test(quota, without_a_rate_nothing_waits)
{
    struct quota quota;
    quota_init_a_minute(&quota, 0, START_NS);
    quota_take(&quota, 1u << 24, START_NS);
    quota_owe(&quota, 1u << 24, START_NS);
    quota_give_back(&quota, 1, START_NS);
    cr_assert_eq(quota_wait_ns(&quota, 1u << 24, START_NS), 0);
}

Test(quota, a_clock_that_runs_backwards_gives_nothing)
{
    struct quota quota;
    quota_init_a_minute(&quota, 60, START_NS + NS_PER_S);
    quota_take(&quota, 60, START_NS + NS_PER_S);
    cr_assert_eq(quota_wait_ns(&quota, 1, START_NS), 2 * NS_PER_S);
}

Test(quota, another_rate_keeps_what_is_left_or_owed)
{
    struct quota before, after;
    quota_init_a_minute(&before, 600, START_NS);
    quota_take(&before, 1200, START_NS);
    quota_init_a_minute(&after, 60, START_NS + 30 * NS_PER_S);
    quota_inherit(&after, &before, START_NS + 30 * NS_PER_S); /* owes 300 still */
    cr_assert_eq(quota_wait_ns(&after, 1, START_NS + 30 * NS_PER_S), 301 * NS_PER_S);
    quota_init_a_minute(&before, 600, START_NS);
    quota_init_a_minute(&after, 60, START_NS);
    quota_inherit(&after, &before, START_NS);
    cr_assert_eq(quota_wait_ns(&after, 60, START_NS), 0);
    cr_assert_neq((quota_take(&after, 60, START_NS), quota_wait_ns(&after, 1, START_NS)), 0);
}

/* Takes, returns and waits as a seed says; the wait named is exact, and the sum of what was used stays within capacity +
 * rate x time + what single takes had over the capacity. */
static void try_seed(uint64_t seed)
{
    struct random random;
    struct quota quota;
    random_init(&random, seed);
    uint32_t rate = 1 + (uint32_t)random_below(&random, 100000);
    uint64_t now_ns = START_NS, used = 0, excess = 0;
    quota_init_a_minute(&quota, rate, now_ns);
    for (int i = 0; i < 2000; i++) {
        uint64_t n = 1 + random_below(&random, random_below(&random, 10) ? rate : 3ull * rate);
        uint64_t wait_ns = quota_wait_ns(&quota, n, now_ns);
        if (wait_ns > 0) {
            if (wait_ns > 1)
                cr_assert_gt(quota_wait_ns(&quota, n, now_ns + wait_ns - 1), 0, "seed %llu",
                             (unsigned long long)seed);
            now_ns += wait_ns;
        }
        cr_assert_eq(quota_wait_ns(&quota, n, now_ns), 0, "seed %llu", (unsigned long long)seed);
        quota_take(&quota, n, now_ns);
        uint64_t back = random_below(&random, n + 1);
        quota_give_back(&quota, back, now_ns);
        used += n - back;
        excess = n > rate && n - rate > excess ? n - rate : excess;
        now_ns += random_below(&random, 3) ? 0 : random_below(&random, 10 * NS_PER_S);
        double bound = rate + (double)rate * (double)(now_ns - START_NS) / (60.0 * NS_PER_S) +
                       (double)excess;
        cr_assert_leq((double)used, bound + 1e-3, "seed %llu step %d", (unsigned long long)seed, i);
    }
}

Test(quota, no_order_of_takes_returns_and_waits_gets_more_than_the_rate)
{
    for (uint64_t seed = 1; seed <= 200; seed++)
        try_seed(seed);
}

Test(quota, the_largest_rates_do_not_overflow)
{
    struct quota quota;
    quota_init_a_minute(&quota, QUOTA_A_MINUTE_MAX, START_NS);
    for (int i = 0; i < 8; i++)
        quota_owe(&quota, 33000000, START_NS);
    uint64_t wait_ns = quota_wait_ns(&quota, 33000000, START_NS);
    cr_assert_gt(wait_ns, 60 * NS_PER_S);
    cr_assert_eq(quota_wait_ns(&quota, 33000000, START_NS + wait_ns), 0);
    quota_init_a_second(&quota, QUOTA_MILLI_A_SECOND_MAX, START_NS);
    quota_take(&quota, 100000, START_NS);
    cr_assert_eq(quota_wait_ns(&quota, 1, START_NS), 10000);
    cr_assert_eq(quota_wait_ns(&quota, 1, UINT64_MAX), 0);
}
