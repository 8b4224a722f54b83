#include "harness/simt.h"

#include "harness/threads.h"

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
    if (kernel >= sizeof runs / sizeof *runs)
        simt::report("there is no kernel %u", kernel);
    simt::schedule = {schedule->copies_late, schedule->seed,        schedule->resident,
                      schedule->cluster,     schedule->count_banks, schedule->only_bounds};
    runs[kernel](shape, parameters);
}

struct simt_counts simt_take_counts(void)
{
    const struct simt::counts c = simt::counts;
    simt::counts = {};
    return {c.switches, c.collectives, c.barriers, c.products, c.shared_accesses, c.bank_conflicts};
}
