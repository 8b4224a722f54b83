/*
 * parallel - a parallel loop that runs small work on the caller's thread.
 *
 * The choice depends only on the amount of work, and never changes a bit of a result.
 */
#pragma once

#include "base/thread_pool.h"

#include <stddef.h>

/* Waking a sleeping thread costs about as much as this many multiply-adds of a cached GEMV. */
#define PARALLEL_WORK_MIN 65536u

static inline uint32_t parallel_threads(const struct thread_pool *pool, uint64_t work)
{
    return !pool || work < PARALLEL_WORK_MIN ? 1 : thread_pool_size(pool);
}

/* Calls body(arg, 0 .. n - 1), on the pool if there is enough work. */
static inline void parallel_run(struct thread_pool *pool, uint64_t work, uint32_t n,
                                thread_pool_body body, void *arg)
{
    if (n > 1 && parallel_threads(pool, work) > 1) {
        thread_pool_run(pool, n, body, arg);
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        body(arg, i);
}
