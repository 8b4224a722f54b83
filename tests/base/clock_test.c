/* clock: how long a poll is told to wait. */
#include "base/clock.h"

#include <criterion/criterion.h>

Test(clock, a_poll_is_never_told_to_end_early_nor_to_wait_for_over_a_minute)
{
    const uint64_t now_ns = 5 * NS_PER_S + 1;
    cr_expect_eq(clock_poll_ms(now_ns, now_ns + 1), 1);
    cr_expect_eq(clock_poll_ms(now_ns, now_ns + NS_PER_MS), 1);
    cr_expect_eq(clock_poll_ms(now_ns, now_ns + NS_PER_MS + 1), 2);
    cr_expect_eq(clock_poll_ms(now_ns, now_ns + 60 * NS_PER_S), 60000);
    cr_expect_eq(clock_poll_ms(now_ns, now_ns + 60 * NS_PER_S + 1), 60000);
    cr_expect_eq(clock_poll_ms(now_ns, DEADLINE_NONE - 1), 60000);
    cr_expect_eq(clock_poll_ms(now_ns, DEADLINE_NONE), -1);
}
