#include "harness/simt.h"

#include "kernels/cuda/hardware.cuh"

#define POINTER(parameters, field)
#define KERNEL(name, body, parameters, threads, ctas)                                              \
    void simt_run_##name(const struct device_shape *shape, const void *bytes);
#include "kernels/cuda/kernels.list"
#undef KERNEL

static void (*const runs[])(const struct device_shape *, const void *) = {
#define KERNEL(name, body, parameters, threads, ctas) simt_run_##name,
#include "kernels/cuda/kernels.list"
#undef KERNEL
};

void simt_launch(uint32_t kernel, const struct device_shape *shape, const void *parameters,
                 const struct simt_schedule *schedule)
{
    simt::late_copies = schedule->copies_late;
    simt::seed = schedule->seed;
    runs[kernel](shape, parameters);
}
