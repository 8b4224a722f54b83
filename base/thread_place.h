/*
 * thread_place - the functions of thread_pool that need the machine's cores. The library of kernels does not export them.
 *
 * Thread: as thread_pool.h.
 */
#pragma once

#include "base/cpu_cores.h"

struct thread_pool; /* thread_pool.h */

/* The threads of a pool that is made with n_threads 0. */
uint32_t thread_pool_default(const struct cpu_cores *cores);

/* Binds each thread but thread 0 to the CPUs that cpu_cores_of_thread has for it. Best effort: a thread that cannot be
 * bound stays where the kernel puts it. Not while a run is in progress. */
void thread_pool_place(struct thread_pool *pool, const struct cpu_cores *cores);
