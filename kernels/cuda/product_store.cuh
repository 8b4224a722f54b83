/*
 * product_store - stores a sum of products: rounds it to float32, adds bias, then y.
 */
#pragma once

#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/products_parameters.h"

/* bias: 0 if there is none. y is aligned to its elements. */
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

/* Stores four outputs from `out` on at once. Their place in y is aligned to the four. */
DEVICE void product_store4(const struct product &p, uint32_t token, uint32_t out,
                           const float (&sums)[4], const float (&bias)[4])
{
    const uint64_t at = (uint64_t)token * p.y_stride + out;
    float y[4];
    uint32_t words[4];
    UNROLL
    for (int i = 0; i < 4; i++)
        y[i] = sums[i] + bias[i];
    if (p.y_dtype == DTYPE_F32) {
        if (p.accumulate)
            load_vector16(words, (float *)p.y + at);
        UNROLL
        for (int i = 0; i < 4; i++)
            words[i] = float_bits(p.accumulate ? y[i] + bits_float(words[i]) : y[i]);
        store_vector16((float *)p.y + at, words);
        return;
    }
    const bool is_bf16 = p.y_dtype == DTYPE_BF16;
    uint32_t pairs[2];
    if (p.accumulate) {
        load_vector8(pairs, (uint16_t *)p.y + at);
        UNROLL
        for (int i = 0; i < 4; i++) {
            const uint16_t half = (uint16_t)(pairs[i / 2] >> i % 2 * 16);
            y[i] += is_bf16 ? bf16_to_float(half) : f16_to_float(half);
        }
    }
    UNROLL
    for (int i = 0; i < 2; i++)
        pairs[i] = is_bf16 ? pack_bf16(y[2 * i], y[2 * i + 1]) : pack_f16(y[2 * i], y[2 * i + 1]);
    store_vector8((uint16_t *)p.y + at, pairs);
}
