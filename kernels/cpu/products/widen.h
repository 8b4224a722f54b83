/*
 * widen - elements of a row of weights as floats: exactly, then times their scale.
 */
#pragma once

#include "kernels/blocks.h"
#include "kernels/cpu/vector/vec.h"
#include "kernels/quantize.h"

#include <string.h>

INLINE void widen_run(const enum dtype dtype, const char *source, uint32_t n, float *wide_out)
{
    uint32_t k = 0;
    const size_t bytes = dtype_bytes(dtype);
    for (; k + LANES <= n; k += LANES)
        vec_store(wide_out + k, vec_load_as(dtype, source + k * bytes));
    if (k < n)
        vec_store_some(wide_out + k, vec_load_some(dtype, source + k * bytes, n - k), n - k);
}

static inline void widen_e2m1(const uint8_t *source, uint32_t n, float *wide_out)
{
    for (uint32_t k = 0; k < n; k += LANES)
        vec_store(wide_out + k, vec_load_e2m1(source + k / 2));
}

static inline void widen_scaled(const struct gemm *gemm, uint32_t row, uint32_t first, uint32_t n,
                                float *wide_out)
{
    for (uint32_t k = 0, n_same; k < n; k += n_same) {
        uint32_t to_next = gemm->w_scale_columns - (first + k) % gemm->w_scale_columns;
        n_same = to_next < n - k ? to_next : n - k;
        float scale = dequantize_scale(gemm, row, first + k);
        for (uint32_t i = k; i < k + n_same; i++)
            wide_out[i] *= scale;
    }
}

/* One block: numbers as floats, times the factor of their group, plus its offset, each rounded as blocks_to_f32 does. */
static inline void widen_block(enum dtype dtype, const uint8_t *block, uint32_t n, float *wide_out)
{
    struct block_numbers numbers;
    block_take_apart(dtype, block, &numbers);
    for (uint32_t i = 0; i < n; i += LANES) {
        const uint32_t group = i / 16;
        vec v = vec_load_as(DTYPE_INT8, (const char *)numbers.numbers + i);
        v = vec_mul(v, vec_set(numbers.factors[group]));
        if (numbers.has_offsets)
            v = vec_add(v, vec_set(numbers.offsets[group]));
        vec_store(wide_out + i, v);
    }
}

/* Blocks that are not wanted as a whole go through a buffer. */
static inline void widen_blocks(enum dtype dtype, const uint8_t *row, uint32_t first, uint32_t n,
                                float *wide_out)
{
    const struct block_shape shape = dtype_block_shape(dtype);
    const uint32_t size = shape.elements;
    for (uint32_t k = 0, n_same; k < n; k += n_same) {
        const uint32_t at = (first + k) % size;
        const uint8_t *block = row + (size_t)((first + k) / size) * shape.bytes;
        n_same = size - at < n - k ? size - at : n - k;
        if (n_same == size) {
            widen_block(dtype, block, size, wide_out + k);
        } else {
            _Alignas(64) float wide[BLOCK_ELEMENTS_MAX];
            widen_block(dtype, block, size, wide);
            memcpy(wide_out + k, wide + at, n_same * sizeof *wide);
        }
    }
}

/* Widens elements first .. first + n - 1 of a row that has no blocks; first is a multiple of 16. */
static inline void widen(const struct gemm *gemm, uint32_t row, uint32_t first, uint32_t n,
                         float *wide_out)
{
    size_t row_bytes = dtype_array_bytes(gemm->w_dtype, gemm->n_in);
    const char *source = (const char *)gemm->w + row * row_bytes +
                         dtype_array_bytes(gemm->w_dtype, first);
    if (gemm->w_dtype == DTYPE_F32)
        widen_run(DTYPE_F32, source, n, wide_out);
    else if (gemm->w_dtype == DTYPE_BF16)
        widen_run(DTYPE_BF16, source, n, wide_out);
    else if (gemm->w_dtype == DTYPE_F16)
        widen_run(DTYPE_F16, source, n, wide_out);
    else if (gemm->w_dtype == DTYPE_E4M3)
        widen_run(DTYPE_E4M3, source, n, wide_out);
    else if (gemm->w_dtype == DTYPE_INT8)
        widen_run(DTYPE_INT8, source, n, wide_out);
    else
        widen_e2m1((const uint8_t *)source, n, wide_out);
    if (gemm->w_scales)
        widen_scaled(gemm, row, first, n, wide_out);
}
