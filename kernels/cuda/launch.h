/*
 * launch - numbers the kernels, and launches one on the device that is bound to the thread.
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

/* The image that a device loads. Its modules have no bytes if the build has no CUDA compiler. */
extern const struct device_image cuda_image;
/* [CUDA_UNITS] from modules.c, or from the file that the preset cuda generates instead. */
extern const struct device_module cuda_modules[];

/* The most shared memory of a CTA, except in kernels for sm_90 only: sm_86, sm_89 and sm_120 have the least, this. */
#define CUDA_SHARED_BYTES_MAX (99u * 1024u)
/* The most parameters of one kernel that every driver and architecture takes. */
#define CUDA_PARAMETER_BYTES_MAX 4096u

/* parameters: of the type in the kernel's row of the list. */
#define cuda_launch(kernel, shape, parameters)                                                     \
    device_launch(device_bound(), kernel, shape, parameters, sizeof *(parameters))
