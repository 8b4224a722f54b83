#include "tests/gpu/conform/conform.h"

static const struct device_kernel kernels[CONFORM_KERNELS] = {
#define POINTER(parameters, field)
#define KERNEL(name, body, parameters, threads, ctas)                                              \
    {#name, CONFORM_UNIT_conform, threads, sizeof(struct parameters)},
#include "kernels/cuda/conform/conform.list"
#undef KERNEL
#define KERNEL(name, body, parameters, threads, ctas)                                              \
    {#name, CONFORM_UNIT_conform_sm90, threads, sizeof(struct parameters)},
#include "kernels/cuda/conform/conform_sm90.list"
#undef KERNEL
#undef POINTER
};

const struct device_image *conform_image(uint32_t architecture)
{
    static struct device_image image = {
        .modules = conform_modules, .kernels = kernels, .shared_bytes_max = 40960};
    const bool is_sm90 = architecture == 90;
    image.n_modules = is_sm90 ? CONFORM_UNITS : CONFORM_UNIT_conform_sm90;
    image.n_kernels = is_sm90 ? CONFORM_KERNELS : CONFORM_KERNELS_EVERYWHERE;
    return &image;
}
