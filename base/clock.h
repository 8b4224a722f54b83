/*
 * clock - monotonic time, in nanoseconds since an arbitrary start.
 *
 * Only code that no simulation runs calls clock_now_ns (tests/tidy has the list). All other code takes now_ns as an
 * argument, so that a simulated clock can drive it.
 *
 * Thread: any.
 */
#pragma once

#include <stdint.h>

#define NS_PER_US 1000ull
#define NS_PER_MS 1000000ull
#define NS_PER_S  1000000000ull

#define DEADLINE_NONE UINT64_MAX

uint64_t clock_now_ns(void);

static inline uint64_t clock_earlier(uint64_t a_ns, uint64_t b_ns)
{
    return a_ns < b_ns ? a_ns : b_ns;
}

/* The timeout in ms for poll and epoll_wait until a time that is not before now_ns: rounded up, at most a minute.
 * DEADLINE_NONE: -1. */
static inline int clock_poll_ms(uint64_t now_ns, uint64_t until_ns)
{
    const uint64_t limit_ms = 60000;
    if (until_ns == DEADLINE_NONE)
        return -1;
    const uint64_t wait_ms = (until_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS;
    return (int)(wait_ms > limit_ms ? limit_ms : wait_ms);
}

/* Milliseconds since 1970, from the machine's clock, which may jump. Only for times that are
 * compared between machines. */
uint64_t clock_unix_ms(void);
uint64_t clock_unix_ns(void);
