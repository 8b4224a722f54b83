/*
 * widen - elements of a row of weights as floats: exactly, then times their scale.
 */
#pragma once

#include "kernels/cpu/vector/vec.h"
#include "kernels/quantize.h"

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

/* Widens elements first .. first + n - 1 of a row; first is a multiple of 16. */
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
