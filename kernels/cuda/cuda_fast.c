/*
 * cuda_fast - computes products with the library of the device, where the library takes them.
 */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/launch.h"

#include <assert.h>

static enum device_number number_of(enum dtype dtype)
{
    return dtype == DTYPE_F32 ? DEVICE_F32 : dtype == DTYPE_F16 ? DEVICE_F16 : DEVICE_BF16;
}

/* False: the library does not compute this kind of product. */
static bool to_product(const struct gemm *gemm, struct device_product *product_out)
{
    if (gemm->x_dtype != gemm->w_dtype || gemm->bias || gemm->n_tokens == 0 ||
        !cuda_gemm_takes(gemm, CUDA_GEMM_SLIM))
        return false;
    assert(gemm->x_dtype == DTYPE_BF16 || gemm->x_dtype == DTYPE_F16);
    *product_out = (struct device_product){
        .w = gemm->w,
        .x = gemm->x,
        .y = gemm->y,
        .x_stride = gemm->x_stride,
        .y_stride = gemm->y_stride,
        .n_tokens = gemm->n_tokens,
        .n_in = gemm->n_in,
        .n_out = gemm->n_out,
        .operand = number_of(gemm->x_dtype),
        .result = number_of(gemm->y_dtype),
        .accumulates = gemm->accumulate,
    };
    return true;
}

enum status cuda_gemm_plan(const struct gemm *gemm, struct error *error)
{
    struct device_product product;
    if (!to_product(gemm, &product))
        return STATUS_OK;
    return device_plan_product(device_bound(), &product, error);
}

void cuda_gemm_fast(struct thread_pool *pool, const struct gemm *gemms, uint32_t n_gemms)
{
    for (uint32_t g = 0; g < n_gemms; g++) {
        struct device_product product;
        if (!to_product(&gemms[g], &product) || !device_multiply(device_bound(), &product))
            cuda_gemm(pool, &gemms[g], 1);
    }
}
