/* stall: counts how long a number stands still while somebody looks, and no time in which nobody did. */

#include "base/stall.h"

#include <criterion/criterion.h>

#define LOOK_NS (250 * NS_PER_MS)

Test(stall, counts_while_the_mark_stands_still)
{
    struct stall stall = {0};
    uint64_t now_ns = NS_PER_S;
    cr_expect_eq(stall_look(&stall, 7, now_ns), 0);
    for (uint64_t i = 1; i <= 40; i++)
        cr_expect_eq(stall_look(&stall, 7, now_ns + i * LOOK_NS), i * LOOK_NS);
    cr_expect_eq(stall_look(&stall, 8, now_ns + 41 * LOOK_NS), 0, "it moved");
    cr_expect_eq(stall_look(&stall, 8, now_ns + 42 * LOOK_NS), LOOK_NS, "and stands again");
}

Test(stall, a_process_that_was_stopped_has_seen_nothing)
{
    struct stall stall = {0};
    cr_expect_eq(stall_look(&stall, 7, NS_PER_S), 0);
    cr_expect_eq(stall_look(&stall, 7, 3600 * NS_PER_S), STALL_GAP_NS);
}
