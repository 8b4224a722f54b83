/*
 * worker_threads - the compute threads of a worker, and on which cores and memory nodes they work.
 *
 * Thread: main, before anything large is allocated.
 */
#pragma once

#include "base/cpu_cores.h"
#include "worker_common/worker_object.h"

/* The configured number, or that of the cores: at most THREADS_MAX. */
uint32_t worker_n_threads(const struct worker_options *options, const struct cpu_cores *cores);

/* Makes worker->threads, after a check of the configured kernels. With cpu_placement auto, threads of a host that need
 * more than one memory node are bound to the nodes in turn, and memory is interleaved over the nodes; on one node
 * with slow cores, threads are bound to the fast ones. INVALID_ARGUMENT, UNSUPPORTED, NO_MEMORY, NO_THREAD with a
 * sentence. */
MUST_CHECK enum status worker_create_threads(struct worker *worker,
                                             const struct worker_options *options,
                                             struct error *error);
