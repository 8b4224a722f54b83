/*
 * quota - how much of something may be taken in a time: a bucket that fills steadily.
 *
 *     level   -debt ......... 0 ............. capacity       what may be taken at once
 *
 * A bucket begins full and fills at its rate. Who takes more than the capacity waits for a full bucket
 * and leaves it in debt: so whatever is asked for is granted at some time, and in the long run no more
 * than the rate. Over any time t no more is taken than capacity + rate x t, and what single takes had
 * over the capacity.
 *
 * Exact: amounts are counted in parts that a nanosecond fills whole (level_parts), not in floats.
 *
 * Thread: the owner's. Time: an argument, which must not run backwards (then nothing fills).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct quota {
    bool is_unlimited;
    int64_t level_parts, capacity_parts;
    int64_t one_parts;  /* of one unit */
    int64_t fill_parts; /* a nanosecond */
    uint64_t filled_ns; /* as of when level_parts is */
};

#define QUOTA_MILLI_A_SECOND_MAX 100000000u /* 100,000 a second */
#define QUOTA_A_MINUTE_MAX       50000000u

/* rate of thousandths a second; the capacity is a second's, at least one. 0: unlimited. */
void quota_init_a_second(struct quota *quota, uint32_t rate_milli, uint64_t now_ns);
/* rate a minute; the capacity is a minute's. 0: unlimited. */
void quota_init_a_minute(struct quota *quota, uint32_t rate, uint64_t now_ns);
/* Takes over what the old one has left, or owes, as far as the new one holds it. */
void quota_inherit(struct quota *quota, const struct quota *old, uint64_t now_ns);

/* Time until n can be taken, if nothing else is; 0: now. */
uint64_t quota_wait_ns(struct quota *quota, uint64_t n, uint64_t now_ns);
/* quota_wait_ns has said 0 at this time. */
void quota_take(struct quota *quota, uint64_t n, uint64_t now_ns);
/* n of what was taken was not used; what goes beyond the capacity is lost. */
void quota_give_back(struct quota *quota, uint64_t n, uint64_t now_ns);
/* n more than was taken has been used: a debt. */
void quota_owe(struct quota *quota, uint64_t n, uint64_t now_ns);
