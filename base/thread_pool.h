/*
 * thread_pool - the compute threads under one engine thread.
 *
 * thread_pool_run calls body(arg, index) for every index 0 .. n - 1, on the caller and n_threads - 1 others, and
 * returns when all are done: a parallel for with a barrier. Threads take the indices in order, one at a time.
 * Waiting threads spin for some microseconds (unless there are more threads than CPUs, or than the quota has), then
 * sleep. A run waits only for threads that took an index, never for idle ones.
 *
 * Thread: run by one thread at a time; body runs on any of the pool's threads and must not call
 * run.
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct thread_pool;

/* n_threads 0: as many as cpu_cores says. pin: binds thread i to the i-th computing CPU of cpu_cores, or to the i-th
 * allowed one if there are more threads than those; thread 0, the caller of run, is bound by whoever starts it (engine_thread.h). INVALID_ARGUMENT: more than THREADS_MAX. NO_MEMORY, NO_THREAD. */
#define THREADS_MAX 256
MUST_CHECK enum status thread_pool_create(uint32_t n_threads, bool pin,
                                          struct thread_pool **pool_out);
void thread_pool_destroy(struct thread_pool *pool); /* NULL is fine */
uint32_t thread_pool_size(const struct thread_pool *pool);

typedef void (*thread_pool_body)(void *arg, uint32_t index);
void thread_pool_run(struct thread_pool *pool, uint32_t n, thread_pool_body body, void *arg);
