/*
 * clock - monotonic time, in nanoseconds since an arbitrary start.
 *
 * Only what no simulation runs calls clock_now_ns (tests/tidy has the list); everything else takes now_ns as an argument, so
 * that a simulated clock can drive it.
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

/* Milliseconds since 1970, as the machine's clock says: may jump. Between machines only. */
uint64_t clock_unix_ms(void);
uint64_t clock_unix_ns(void);
