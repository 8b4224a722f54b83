/* The host's side: kernels as fibers, and single numbers without them, a hundred times as fast. */
#include "harness/engine.h"
#include "harness/memory.h"
#include "kernels/cuda/conform/conform_numbers.cuh"
#include "tests/gpu/conform/conform.h"

#define POINTER(parameters, field)
#define KERNEL(name, body, parameters, threads, ctas)                                              \
    void simt_run_##name(const struct device_shape *shape, const void *bytes);
#include "kernels/cuda/conform/conform.list"
#include "kernels/cuda/conform/conform_sm90.list"
#undef KERNEL

static void (*const runs[CONFORM_KERNELS])(const struct device_shape *, const void *) = {
#define KERNEL(name, body, parameters, threads, ctas) simt_run_##name,
#include "kernels/cuda/conform/conform.list"
#include "kernels/cuda/conform/conform_sm90.list"
#undef KERNEL
#undef POINTER
};

void conform_map_on_host(const uint32_t *base, uint32_t *map_out)
{
    const simt::tensor_shape shape = {
        (const uint8_t *)base, {128, 1024, 2048}, {64, 8, 2, 3}, {64, 4, 1, 1}};
    memcpy(map_out, &shape, sizeof shape);
}

void conform_on_host(const struct conform_launch *launch, uint32_t schedule, uint32_t *out)
{
    const struct device_shape shape = {{launch->ctas, 1, 1}, launch->threads, launch->shared_bytes};
    struct conform_parameters parameters = launch->sweep;
    parameters.in = launch->in;
    parameters.out = out;
    memset(out, 0, launch->n_out * sizeof *out);
    simt_memory_add(launch->in, launch->n_in * sizeof *launch->in);
    simt_memory_add(out, launch->n_out * sizeof *out);
    simt::schedule = {};
    simt::schedule.copies_late = schedule % 2;
    simt::schedule.seed = schedule / 2 * 7;
    simt::schedule.resident = schedule / 2 * 3;
    runs[launch->kernel](&shape, &parameters);
    simt_memory_remove(out);
    simt_memory_remove(launch->in);
}

uint32_t conform_sweep_input(const struct conform_parameters *sweep, uint32_t i)
{
    return conform_input(*sweep, i);
}

uint32_t conform_sweep_output(uint32_t number, uint32_t input)
{
    return conform_number(number, input);
}
