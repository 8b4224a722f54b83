#include "kernels/cuda/launch.h"

static const struct device_kernel kernels[CUDA_KERNELS] = {
#define POINTER(parameters, field)
#define KERNEL(name, body, parameters, threads, ctas)                                              \
    {#name, MODULE, threads, sizeof(struct parameters)},
#include "kernels/cuda/kernels.list"
#undef KERNEL
#undef POINTER
};

const struct device_image cuda_image = {
    .modules = cuda_modules,
    .kernels = kernels,
    .n_modules = CUDA_UNITS,
    .n_kernels = CUDA_KERNELS,
};
