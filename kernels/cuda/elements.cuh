/*
 * elements - loads one element of an array with any dtype and alignment; sums over a CTA.
 *
 * The order of a sum over a CTA depends only on its number of threads: in a warp by halves, then warp by warp.
 */
#pragma once

#include "kernels/cuda/rounding.cuh"

/* Loads half-words and words at any address: rows are where the file has put them. */
DEVICE uint16_t load_half(const void *array, uint64_t index)
{
    const uint8_t *p = (const uint8_t *)array + index * 2;
    if (((uintptr_t)array & 1) == 0)
        return *(const uint16_t *)p;
    return (uint16_t)(p[0] | p[1] << 8);
}

DEVICE uint32_t load_word(const void *array, uint64_t index)
{
    const uint8_t *p = (const uint8_t *)array + index * 4;
    if (((uintptr_t)array & 3) == 0)
        return *(const uint32_t *)p;
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* 0 .. 15, exact */
DEVICE float e2m1_to_float(uint32_t v)
{
    const uint32_t exponent = v >> 1 & 3, mantissa = v & 1, sign = (v & 8) << 28;
    const uint32_t bits = exponent ? (exponent + 126) << 23 | mantissa << 22
                                   : mantissa * 0x3f000000u;
    return bits_float(sign | bits);
}

/* 2^(v - 127); 255 is NaN */
DEVICE float e8m0_to_float(uint32_t v)
{
    return bits_float(v == 255 ? 0x7fc00000u : v > 0 ? v << 23 : 0x00400000u);
}

/* For weights in the layout of a file: also E2M1, and any address. attention_head.cuh has the function for tensors and caches,
 * which are aligned: a check of the address before each load would cost the attention kernels registers. */
DEVICE float load_element(uint32_t dtype, const void *array, uint64_t index)
{
    switch (dtype) {
    case DTYPE_F32:
        return bits_float(load_word(array, index));
    case DTYPE_BF16:
        return bf16_to_float(load_half(array, index));
    case DTYPE_F16:
        return f16_to_float(load_half(array, index));
    case DTYPE_INT8:
        return (float)((const int8_t *)array)[index];
    case DTYPE_E4M3:
        return e4m3_to_float(((const uint8_t *)array)[index]);
    default:
        return e2m1_to_float(((const uint8_t *)array)[index / 2] >> index % 2 * 4 & 15u);
    }
}

DEVICE float warp_sum(float v)
{
    for (int mask = 16; mask > 0; mask /= 2)
        v += shuffle_xor(v, mask);
    return v;
}

/* The sum over all threads, the same in each. shared: [warps], which may be used again afterwards. */
DEVICE float cta_sum(float v, float *shared)
{
    const uint32_t n_warps = blockDim.x / WARP;
    float sum = 0;
    v = warp_sum(v);
    if (threadIdx.x % WARP == 0)
        shared[threadIdx.x / WARP] = v;
    cta_sync();
    for (uint32_t i = 0; i < n_warps; i++)
        sum += shared[i];
    cta_sync();
    return sum;
}

/* The largest number; NaN if all are NaN. */
DEVICE float cta_largest(float v, float *shared)
{
    const uint32_t n_warps = blockDim.x / WARP;
    for (int mask = 16; mask > 0; mask /= 2)
        v = fmaxf(v, shuffle_xor(v, mask));
    if (threadIdx.x % WARP == 0)
        shared[threadIdx.x / WARP] = v;
    cta_sync();
    float largest = shared[0];
    for (uint32_t i = 1; i < n_warps; i++)
        largest = fmaxf(largest, shared[i]);
    cta_sync();
    return largest;
}
