/*
 * thread_place - the function of thread_pool that needs the machine's cores. The library of kernels does not export it.
 *
 * Thread: as thread_pool.h.
 */
#pragma once

#include "base/cpu_cores.h"

struct thread_pool; /* thread_pool.h */

/* Binds each thread but thread 0 to the CPUs that cpu_cores_of_thread has for it. Best effort: a thread that cannot be
 * bound stays where the kernel puts it. Not while a run is in progress. */
void thread_pool_place(struct thread_pool *pool, const struct cpu_cores *cores);
