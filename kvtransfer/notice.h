/*
 * notice - one queued message for any number of changes of a counter.
 *
 *     producer: change the counter, raise (true: queue the message)
 *     consumer: take the message, lower, look at the counter
 *
 * Both sides use an atomic exchange, which orders the flag and the counter. When the producer's exchange is first, the
 * consumer's exchange reads from it, and the consumer sees the counter. When the consumer's exchange is first, the producer
 * reads false and queues another message. A plain store by the consumer would not do: C11 lets the load of the counter
 * overtake it, so that the counter is old while the flag is still set. tests/kvtransfer/notice_test.c runs every
 * interleaving of both.
 *
 * Thread: raise on any, lower on the one that takes the messages.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

struct notice {
    atomic_bool is_up;
};

/* Called after the change. True: no message is queued, and the caller queues one. */
static inline bool notice_raise(struct notice *notice)
{
    return !atomic_exchange(&notice->is_up, true);
}

/* Before the look. */
static inline void notice_lower(struct notice *notice)
{
    (void)atomic_exchange(&notice->is_up, false);
}
