/*
 * quota - a rate limit by a token bucket, which fills steadily.
 *
 *     level   -debt ......... 0 ............. capacity       the amount that may be taken at once
 *
 * A bucket begins full and fills at its rate. A take of more than the capacity waits for a full bucket
 * and leaves a debt: so every amount is granted at some time, and in the long run no more than the
 * rate. Over any time t at most capacity + rate x t is taken, plus the parts of single takes above the
 * capacity.
 *
 * It is exact: amounts are counted in integer parts (level_parts), of which each nanosecond adds a
 * whole number, not in floats.
 *
 * Thread: the owner's. Time is an argument; if it goes backwards, nothing fills.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct quota {
    bool is_unlimited;
    int64_t level_parts, capacity_parts;
    int64_t one_parts;  /* of one unit */
    int64_t fill_parts; /* a nanosecond */
    uint64_t filled_ns; /* the time of level_parts */
};

#define QUOTA_MILLI_A_SECOND_MAX 100000000u /* 100,000 a second */
#define QUOTA_A_MINUTE_MAX       50000000u

/* rate in thousandths per second; the capacity is that of a second, at least one. 0: unlimited. */
void quota_init_a_second(struct quota *quota, uint32_t rate_milli, uint64_t now_ns);
/* rate per minute; the capacity is that of a minute. 0: unlimited. */
void quota_init_a_minute(struct quota *quota, uint32_t rate, uint64_t now_ns);
/* Takes over the level or debt of the old one, up to the new capacity. */
void quota_inherit(struct quota *quota, const struct quota *old, uint64_t now_ns);

/* Time until n can be taken, if no other take comes first; 0: now. */
uint64_t quota_wait_ns(struct quota *quota, uint64_t n, uint64_t now_ns);
/* Only if quota_wait_ns returned 0 at this time. */
void quota_take(struct quota *quota, uint64_t n, uint64_t now_ns);
/* Gives n back that was taken and not used; the part beyond the capacity is lost. */
void quota_give_back(struct quota *quota, uint64_t n, uint64_t now_ns);
/* Adds a debt: n more was used than taken. */
void quota_owe(struct quota *quota, uint64_t n, uint64_t now_ns);
