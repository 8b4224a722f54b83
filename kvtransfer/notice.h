/*
 * notice - one queued word for any number of changes to what stands beside it.
 *
 *     producer: change the counter, raise (true: queue the word)
 *     consumer: take the word, lower, look at the counter
 *
 * Both sides exchange, which orders the flag and the counter: if the producer's exchange comes first
 * the consumer's reads from it, and so sees the counter; if the consumer's comes first the producer
 * reads false, and queues another word. A store in place of the consumer's exchange would lose this:
 * C11 lets the load of the counter overtake it, so that the counter is old and the flag still up.
 * tests/kvtransfer/notice_test.c runs every interleaving of both.
 *
 * Thread: raise on any, lower on the one that takes the words.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

struct notice {
    atomic_bool is_up;
};

/* After the change. True: no word is queued, the caller queues one. */
static inline bool notice_raise(struct notice *notice)
{
    return !atomic_exchange(&notice->is_up, true);
}

/* Before the look. */
static inline void notice_lower(struct notice *notice)
{
    (void)atomic_exchange(&notice->is_up, false);
}
