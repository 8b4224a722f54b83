/* reminder: a lasting fault is said after a second and then ever more rarely; one that is over, anew. */
#include "base/clock.h"
#include "discovery/reminder.h"

#include <criterion/criterion.h>

Test(reminder, says_it_at_growing_intervals)
{
    struct reminder reminder = {0};
    uint32_t n = 0;
    for (uint64_t s = 10; s < 100; s++) {
        bool is_due = reminder_is_due(&reminder, true, s * NS_PER_S);
        n += is_due;
        cr_assert_eq(is_due, s == 11 || s == 15 || s == 31 || s == 95, "second %lu", s);
    }
    cr_assert_eq(n, 4);
    for (uint64_t s = 100; s < 10000; s++)
        n += reminder_is_due(&reminder, true, s * NS_PER_S);
    cr_assert_eq(n, 4 + 10, "at 351 s, and every 1,024 s from then on");
}

Test(reminder, what_is_over_begins_anew)
{
    struct reminder reminder = {0};
    cr_assert_not(reminder_is_due(&reminder, true, NS_PER_S));
    cr_assert_not(reminder_is_due(&reminder, false, 3 * NS_PER_S));
    cr_assert_not(reminder_is_due(&reminder, true, 4 * NS_PER_S));
    cr_assert(reminder_is_due(&reminder, true, 5 * NS_PER_S));
}
