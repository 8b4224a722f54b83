/*
 * simt - runs the kernels of kernels/cuda on this machine: the same sources, compiled for the host, the threads of a CTA as
 * fibers of the calling thread.
 *
 * Thread: one at a time.
 */
#pragma once

#include "device/device.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* All of it is lawful on a device: a kernel that is right gives the same under each. */
struct simt_schedule {
    bool
        copies_late; /* asynchronous copies are made when they are waited for, not when they are asked for */
    uint32_t seed;     /* 0: threads and CTAs run in order; else in one shuffled by it */
    uint32_t resident; /* CTAs that are live at once; 0: one, and then the next */
    uint32_t
        cluster; /* CTAs of a cluster, along x: these are always live at once; 0: no clusters */
    bool count_banks; /* counts below: it takes time */
    bool only_bounds; /* CTAs are not held against each other: it takes less */
};

/* kernel: enum cuda_kernel. What a kernel may not do ends the process with a sentence. */
void simt_launch(uint32_t kernel, const struct device_shape *shape, const void *parameters,
                 const struct simt_schedule *schedule);

struct simt_counts {
    uint64_t switches;        /* from one thread to another */
    uint64_t collectives;     /* calls of a lane */
    uint64_t barriers;        /* arrivals of a thread */
    uint64_t products;        /* matrix products of a warp */
    uint64_t shared_accesses; /* of a warp to shared memory ... */
    uint64_t bank_conflicts;  /* ... and the turns that they took beyond one for each 128 bytes */
};
/* Since the last call. */
struct simt_counts simt_take_counts(void);

#ifdef __cplusplus
}
#endif
