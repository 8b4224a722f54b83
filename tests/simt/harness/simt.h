/*
 * simt - runs the kernels of kernels/cuda on this machine: the same sources, compiled for the host, a CTA's threads as
 * fibers of the calling thread, one CTA after the other.
 *
 * Thread: one at a time.
 */
#pragma once

#include "device/device.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

struct simt_schedule {
    bool
        copies_late; /* asynchronous copies happen when they are waited for, not when they are asked for */
    uint32_t seed; /* 0: threads run in order; else in one shuffled by it */
};

/* kernel: enum cuda_kernel. What a kernel may not do ends the process with a sentence. */
void simt_launch(uint32_t kernel, const struct device_shape *shape, const void *parameters,
                 const struct simt_schedule *schedule);

#ifdef __cplusplus
}
#endif
