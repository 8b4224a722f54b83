/*
 * attention_tensor - functions that the kernels on tensor cores share: 16-bit operands, rows of keys in shared memory.
 */
#pragma once

#include "kernels/cuda/attention_row.cuh"

#define LOG2_E 1.44269504088896341f

template <bool IS_BF16> DEVICE uint32_t tensor_pack(float low, float high)
{
    return IS_BF16 ? pack_bf16(low, high) : pack_f16(low, high);
}

template <bool IS_BF16>
DEVICE void tensor_multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    if (IS_BF16)
        mma_bf16(c, a, b0, b1);
    else
        mma_f16(c, a, b0, b1);
}

/* The place of 16 bytes of a row of BYTES in shared memory, without bank conflicts for ldmatrix. */
template <uint32_t BYTES> DEVICE uint32_t tensor_place(uint32_t row, uint32_t chunk)
{
    return row * BYTES + ((chunk ^ (row & (BYTES / 16 < 8 ? BYTES / 16 - 1 : 7))) << 4);
}

/* A warp copies 16 rows to target. Lane i has the address of row i; 0: zeros. anywhere: any valid address of the device. */
template <uint32_t BYTES>
DEVICE void load_rows(uint32_t target, uint64_t address, const void *anywhere)
{
    constexpr uint32_t CHUNKS = BYTES / 16;
    const uint32_t lane = threadIdx.x % WARP;
    UNROLL
    for (uint32_t i = 0; i < 16 * CHUNKS / WARP; i++) {
        const uint32_t row = i * (WARP / CHUNKS) + lane / CHUNKS, chunk = lane % CHUNKS;
        const uint64_t high = shuffle((uint32_t)(address >> 32), row);
        const uint64_t from = high << 32 | shuffle((uint32_t)address, row);
        const uint8_t *source = (const uint8_t *)(uintptr_t)from + chunk * 16;
        cp_async16(target + tensor_place<BYTES>(row, chunk),
                   from != 0 ? source : (const uint8_t *)anywhere, from != 0);
    }
}

/* 2^n for a whole n up to 0, exactly; 0 if it is below the normal numbers or n is NaN. */
DEVICE float power_of_two(float n)
{
    return bits_float((uint32_t)((int32_t)fmaxf(n, -127.f) + 127) << 23);
}
