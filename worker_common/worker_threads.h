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

/* What worker_create_threads makes on these cores. */
struct worker_threads_plan {
    uint32_t n;
    bool spreads_memory;   /* interleaves it over the nodes */
    bool is_placed;        /* binds thread i to the CPUs of cpu_cores_of_thread */
    cpu_set_t engine_cpus; /* of thread 0, which is the engine's; empty: any */
};
/* With cpu_placement auto, threads of a host that need more than one memory node are bound to the nodes in turn, and
 * memory is interleaved over the nodes; on one node with slow cores, threads are bound to the fast ones. With pin each
 * is bound to one CPU. The engine thread computes beside them, so it is bound as they are, but with pin and more threads than fast cores. is_own: the device computes
 * with its own kernels, and threads are only pinned. */
struct worker_threads_plan worker_threads_plan(bool is_own, const struct worker_options *options,
                                               const struct cpu_cores *cores);

/* Makes worker->threads and worker->engine_cpus by the plan, after a check of the configured kernels. INVALID_ARGUMENT, UNSUPPORTED, NO_MEMORY,
 * NO_THREAD with a sentence. */
MUST_CHECK enum status worker_create_threads(struct worker *worker,
                                             const struct worker_options *options,
                                             struct error *error);
/* The same on these cores, which need not be the machine's. */
MUST_CHECK enum status worker_create_threads_on(struct worker *worker,
                                                const struct worker_options *options,
                                                const struct cpu_room *room,
                                                const struct cpu_cores *cores, struct error *error);
