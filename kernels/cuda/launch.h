/*
 * launch - the kernels by number, and how the back end launches one on the device that is bound to the thread.
 *
 * Thread: the engine's, which owns the compute queue.
 */
#pragma once

#include "device/device.h"
#include "kernels/cuda/attention_parameters.h"
#include "kernels/cuda/digest_parameters.h"
#include "kernels/cuda/layer_parameters.h"
#include "kernels/cuda/products_parameters.h"
#include "kernels/cuda/sampling_parameters.h"

enum cuda_unit {
#define UNIT(name) CUDA_UNIT_##name,
#include "kernels/cuda/units.list"
#undef UNIT
    CUDA_UNITS
};

enum cuda_kernel {
#define POINTER(parameters, field)
#define KERNEL(name, body, parameters, threads, ctas) CUDA_##name,
#include "kernels/cuda/kernels.list"
#undef KERNEL
#undef POINTER
    CUDA_KERNELS
};

/* What a device loads; modules without bytes where the build has no compiler for them. */
extern const struct device_image cuda_image;
/* [CUDA_UNITS] modules.c, or what the preset cuda makes in its place. */
extern const struct device_module cuda_modules[];

/* Of a CTA at most, but for kernels of sm_90 alone: what sm_86, sm_89 and sm_120 have of it, the least of all. */
#define CUDA_SHARED_BYTES_MAX (99u * 1024u)
/* Of one kernel: what every driver and architecture takes. */
#define CUDA_PARAMETER_BYTES_MAX 4096u

/* parameters are those of the kernel's row in the list. */
#define cuda_launch(kernel, shape, parameters)                                                     \
    device_launch(device_bound(), kernel, shape, parameters, sizeof *(parameters))
