/*
 * walk - a parallel loop for tasks that read memory in order: each thread walks neighbouring indices of its own.
 *
 *     indices     0 .. n - 1, divided into one run for each thread
 *     a thread    takes the indices of its run in order, then those that are left of the next runs
 *
 * What a task reads ahead behind its end is what the same thread needs next, and a core's own prefetcher goes on. So tasks can be
 * small, and threads end at about the same time. A thread that the kernel does not run costs nothing: others take its indices.
 */
#pragma once

#include "kernels/cpu/parallel.h"

#include <assert.h>
#include <stdatomic.h>

struct walk_run {
    _Alignas(64) atomic_uint next; /* first index that nobody has taken, if it is below end */
    uint32_t end;
};

struct walk {
    struct walk_run runs[THREADS_MAX];
    uint32_t n_runs;
    thread_pool_body body;
    void *arg;
};

static inline void walk_from(void *arg, uint32_t own)
{
    struct walk *walk = arg;
    for (uint32_t i = 0; i < walk->n_runs; i++) {
        struct walk_run *run = &walk->runs[(own + i) % walk->n_runs];
        uint32_t index;
        while ((index = atomic_fetch_add_explicit(&run->next, 1, memory_order_relaxed)) < run->end)
            walk->body(walk->arg, index);
    }
}

/* Calls body(arg, 0 .. n - 1), on the pool if there is enough work. n is below 2^31. */
static inline void walk_all(struct thread_pool *pool, uint64_t work, uint32_t n,
                            thread_pool_body body, void *arg)
{
    const uint32_t n_threads = parallel_threads(pool, work);
    if (n_threads == 1 || n <= n_threads) {
        parallel_run(pool, work, n, body, arg);
        return;
    }
    assert(n_threads <= THREADS_MAX &&
           n < 1u << 31); /* each thread goes past the end of each run once */
    struct walk walk;
    walk.n_runs = n_threads;
    walk.body = body;
    walk.arg = arg;
    for (uint32_t i = 0; i < n_threads; i++) {
        atomic_init(&walk.runs[i].next, (uint32_t)((uint64_t)n * i / n_threads));
        walk.runs[i].end = (uint32_t)((uint64_t)n * (i + 1) / n_threads);
    }
    thread_pool_run(pool, n_threads, walk_from, &walk);
}
