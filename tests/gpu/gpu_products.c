/*
 * gpu_products - time of products on a device: one large square for the tensor cores' limit, and those of a decoder
 * with 4,096 columns, for prompts and for few rows, where the weights' bytes are the limit.
 */
#include "kernels/cuda/cuda.h"
#include "tests/gpu/gpu_sections.h"

#include <stdio.h>

struct shape {
    uint32_t n_tokens, n_in, n_out;
    enum dtype weights;
};

struct run {
    struct gemm gemm;
    const uint8_t *weights; /* of which each run takes the next */
    uint64_t weight_bytes;
    uint32_t n_weights;
};

#define ROTATION_BYTES (256ull << 20) /* more than any L2 */

static void enqueue(void *arg, uint32_t i)
{
    struct run *run = arg;
    run->gemm.w = run->weights + (i % run->n_weights) * run->weight_bytes;
    cuda_kernels.gemm(NULL, &run->gemm, 1);
}

static void measure(struct gpu *gpu, const struct shape *shape)
{
    char name[64];
    snprintf(name, sizeof name, "%s %u x %u x %u", dtype_name(shape->weights), shape->n_tokens,
             shape->n_in, shape->n_out);
    if (!gpu_measures(gpu, name))
        return;
    uint64_t n_w = (uint64_t)shape->n_out * shape->n_in, bytes = n_w * dtype_bytes(shape->weights);
    uint64_t n_weights = gpu->is_toy ? 1 : ROTATION_BYTES / bytes + 1;
    struct device_memory x = gpu_random(gpu, DTYPE_BF16, (uint64_t)shape->n_tokens * shape->n_in);
    struct device_memory y = gpu_random(gpu, DTYPE_BF16, (uint64_t)shape->n_tokens * shape->n_out);
    struct device_memory w = gpu_random(gpu, shape->weights, n_weights * n_w);
    struct device_memory scales = gpu_random(gpu, DTYPE_F32, shape->n_out);
    struct run run = {.gemm = {.x = x.base,
                               .x_dtype = DTYPE_BF16,
                               .x_stride = shape->n_in,
                               .w_dtype = shape->weights,
                               .y = y.base,
                               .y_dtype = DTYPE_BF16,
                               .y_stride = shape->n_out,
                               .n_tokens = shape->n_tokens,
                               .n_in = shape->n_in,
                               .n_out = shape->n_out},
                      .weights = w.base,
                      .weight_bytes = bytes,
                      .n_weights = (uint32_t)n_weights};
    if (shape->weights == DTYPE_INT8) {
        run.gemm.w_scales = scales.base;
        run.gemm.w_scale_rows = 1;
        run.gemm.w_scale_columns = shape->n_in;
    }
    double us = gpu_time_us(gpu, enqueue, &run);
    printf("{\"section\": \"products\", \"name\": \"%s\", \"weights\": \"%s\", "
           "\"rows\": %u, \"n_in\": %u, \"n_out\": %u, \"us\": %.2f, \"tflops\": %.6g, "
           "\"gbs\": %.6g}\n",
           name, dtype_name(shape->weights), shape->n_tokens, shape->n_in, shape->n_out, us,
           2.0 * shape->n_tokens * (double)n_w / us / 1e6, (double)bytes / us / 1e3);
    fflush(stdout);
    struct device_memory *all[] = {&x, &y, &w, &scales};
    for (int i = 0; i < 4; i++)
        device_free(gpu->device, all[i]);
}

void gpu_products(struct gpu *gpu)
{
    static const struct shape shapes[] = {
        {8192, 8192, 8192, DTYPE_BF16},  {2048, 4096, 6144, DTYPE_BF16},
        {2048, 4096, 14336, DTYPE_BF16}, {2048, 14336, 4096, DTYPE_BF16},
        {64, 4096, 14336, DTYPE_BF16},   {16, 4096, 14336, DTYPE_BF16},
        {8, 4096, 14336, DTYPE_BF16},    {1, 4096, 14336, DTYPE_BF16},
        {1, 14336, 4096, DTYPE_BF16},    {16, 4096, 14336, DTYPE_INT8},
        {1, 4096, 14336, DTYPE_INT8},
    };
    static const struct shape toys[] = {{20, 64, 72, DTYPE_BF16}, {1, 64, 72, DTYPE_INT8}};
    const struct shape *all = gpu->is_toy ? toys : shapes;
    uint32_t n = gpu->is_toy ? 2 : sizeof shapes / sizeof *shapes;
    for (uint32_t i = 0; i < n; i++)
        measure(gpu, &all[i]);
}
