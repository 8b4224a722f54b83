#include "tests/gpu/conform/conform.h"

static const struct device_kernel kernels[CONFORM_KERNELS] = {
#define POINTER(parameters, field)
#define KERNEL(name, body, parameters, threads, ctas)                                              \
    {#name, CONFORM_UNIT_conform, threads, sizeof(struct parameters)},
#include "kernels/cuda/conform/conform.list"
#undef KERNEL
#undef POINTER
};

const struct device_image conform_image = {
    .modules = conform_modules,
    .kernels = kernels,
    .n_modules = CONFORM_UNITS,
    .n_kernels = CONFORM_KERNELS,
    .shared_bytes_max = 4096,
};
