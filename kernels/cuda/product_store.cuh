/*
 * product_store - what becomes of a sum of products: rounded to float32, then bias, then y.
 */
#pragma once

#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/products_parameters.h"

/* bias: 0 where there is none; y is at multiples of its elements' size. */
DEVICE void product_store(const struct product &p, uint32_t token, uint32_t out, float sum,
                          float bias)
{
    const uint64_t at = (uint64_t)token * p.y_stride + out;
    if (token >= p.n_tokens || out >= p.n_out)
        return;
    sum += bias;
    if (p.y_dtype == DTYPE_F32) {
        float *y = (float *)p.y + at;
        *y = p.accumulate ? sum + *y : sum;
        return;
    }
    uint16_t *y = (uint16_t *)p.y + at;
    if (p.accumulate)
        sum += p.y_dtype == DTYPE_BF16 ? bf16_to_float(*y) : f16_to_float(*y);
    *y = p.y_dtype == DTYPE_BF16 ? float_to_bf16(sum) : float_to_f16(sum);
}
