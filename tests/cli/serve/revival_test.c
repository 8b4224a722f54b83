/* revival: pauses grow to a bound, and good service makes them short again. */
#include "base/clock.h"
#include "cli/serve/revival.h"

#include <criterion/criterion.h>

static uint64_t now_ns = NS_PER_S;

static void pass(uint64_t ms)
{
    now_ns += ms * NS_PER_MS;
}

Test(revival, pauses_double_up_to_their_bound)
{
    static const uint64_t EXPECTED_MS[] = {500, 1000, 2000, 4000, 8000, 16000, 30000, 30000};
    struct revival revival = {0};
    for (size_t i = 0; i < sizeof EXPECTED_MS / sizeof *EXPECTED_MS; i++) {
        cr_assert_eq(revival_ended(&revival, now_ns), EXPECTED_MS[i]);
        cr_assert(revival_waits(&revival));
        pass(EXPECTED_MS[i] - 1);
        cr_assert_not(revival_is_due(&revival, now_ns));
        pass(1);
        cr_assert(revival_is_due(&revival, now_ns));
        cr_assert_not(revival_waits(&revival));
        cr_assert_not(revival_is_due(&revival, now_ns), "once");
    }
}

Test(revival, who_served_for_long_begins_anew)
{
    struct revival revival = {0};
    (void)revival_ended(&revival, now_ns);
    (void)revival_ended(&revival, now_ns);
    revival_serves(&revival, now_ns);
    pass(REVIVAL_GOOD_MS - 1);
    revival_serves(&revival, now_ns);
    cr_assert_eq(revival_ended(&revival, now_ns), 2000, "a little less is not long");
    revival_serves(&revival, now_ns);
    pass(REVIVAL_GOOD_MS);
    cr_assert_eq(revival_ended(&revival, now_ns), REVIVAL_FIRST_MS);
}

Test(revival, service_of_an_earlier_life_counts_no_more)
{
    struct revival revival = {0};
    revival_serves(&revival, now_ns);
    pass(REVIVAL_GOOD_MS);
    (void)revival_ended(&revival, now_ns);
    pass(REVIVAL_GOOD_MS);
    cr_assert_eq(revival_ended(&revival, now_ns), 1000, "it died before it served");
}
