/*
 * products - computes y = x W^T for any dtypes, sizes and alignments with plain arithmetic: for all products that the kernels
 * on tensor cores do not take (products_mma.cuh).
 *
 * Grid: x groups of PRODUCT_PLAIN_TOKENS tokens, y of PRODUCT_PLAIN_OUT outputs, z products; a warp an output. Lane l adds
 * elements l, l + 32, ... of the inner dimension, then lanes are added by halves: the order depends only on n_in. Bound: loads.
 * Oracle: kernels/reference, 1e-5 of the sum of magnitudes.
 */
#pragma once

#include "kernels/cuda/product_store.cuh"

/* Element i of the weights of output out, times its scale. */
DEVICE float plain_weight(const struct product &p, uint32_t out, uint32_t i)
{
    const float w = load_element(p.w_dtype, p.w, (uint64_t)out * p.n_in + i);
    if (!p.w_scales)
        return w;
    const uint64_t columns = (p.n_in + p.w_scale_columns - 1) / p.w_scale_columns;
    const uint64_t at = out / p.w_scale_rows * columns + i / p.w_scale_columns;
    if (p.w_dtype == DTYPE_E2M1)
        return w * e8m0_to_float(((const uint8_t *)p.w_scales)[at]);
    return w * load_element(DTYPE_F32, p.w_scales, at);
}

DEVICE void product_plain_body(const struct products_parameters &parameters)
{
    const struct product &p = parameters.products[blockIdx.z];
    const uint32_t lane = threadIdx.x % WARP, token = blockIdx.x * PRODUCT_PLAIN_TOKENS;
    const uint32_t out = blockIdx.y * PRODUCT_PLAIN_OUT + threadIdx.x / WARP;
    float sum[PRODUCT_PLAIN_TOKENS] = {};
    if (token >= p.n_tokens || out >= p.n_out)
        return;
    for (uint32_t i = lane; i < p.n_in; i += WARP) {
        const float w = plain_weight(p, out, i);
        UNROLL
        for (uint32_t t = 0; t < PRODUCT_PLAIN_TOKENS; t++) {
            if (token + t >= p.n_tokens)
                continue;
            const uint64_t at = (uint64_t)(token + t) * p.x_stride + i;
            sum[t] = multiply_add(load_element(p.x_dtype, p.x, at), w, sum[t]);
        }
    }
    const float bias = p.bias ? load_element(p.bias_dtype, p.bias, out) : 0;
    UNROLL
    for (uint32_t t = 0; t < PRODUCT_PLAIN_TOKENS; t++) {
        const float whole = warp_sum(sum[t]);
        if (lane == 0)
            product_store(p, token + t, out, whole, bias);
    }
}
