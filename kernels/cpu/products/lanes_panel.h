/*
 * lanes_panel - sixteen rows of weights of any dtype, transposed: [lane][j][16 rows], floats with their scale.
 */
#pragma once

#include "kernels/cpu/products/gemm_path.h"
#include "kernels/cpu/products/widen.h"
#include "kernels/cpu/vector/transpose.h"

enum {
    PANEL_WIDE = 256,             /* elements that are widened before they are transposed */
    PANEL_WIDE_STRIDE = 256 + 16, /* rows do not share sets of a cache */
};

/* Widens first, for the types and places that are not transposed at once: zeros for rows and elements beyond the
 * matrix. */
static inline void panel_widen(const struct gemm *gemm, uint32_t row, uint32_t k, uint32_t n,
                               float *out, size_t lane_stride)
{
    _Alignas(64) float wide[LANES * PANEL_WIDE_STRIDE];
    const uint32_t n_rows = gemm->n_out - row < LANES ? gemm->n_out - row : LANES;
    for (uint32_t i = 0, len; i < n; i += len) {
        len = n - i < PANEL_WIDE ? n - i : PANEL_WIDE;
        for (uint32_t r = 0; r < LANES; r++) {
            float *to = wide + (size_t)r * PANEL_WIDE_STRIDE;
            if (r < n_rows)
                widen(gemm, row + r, k + i, len, to);
            const uint32_t known = r < n_rows ? len : 0;
            memset(to + known, 0, (PANEL_WIDE - known) * sizeof *to);
        }
        for (uint32_t at = 0; at < len; at += LANES)
            transpose_floats((const char *)(wide + at), PANEL_WIDE_STRIDE * sizeof *wide,
                             out + i + at, lane_stride);
    }
}

INLINE uint32_t panel_whole_steps(const enum dtype dtype, const struct gemm *gemm, uint32_t row,
                                  uint32_t k, uint32_t n, float *out, size_t lane_stride)
{
    const size_t bytes = dtype_bytes(dtype), stride = gemm->n_in * bytes;
    const char *rows = (const char *)gemm->w + row * stride + k * bytes;
    uint32_t i = 0;
    for (; i + LANES <= n; i += LANES)
        if (dtype == DTYPE_F32)
            transpose_floats(rows + i * bytes, stride, out + i, lane_stride);
        else
            transpose_bf16(rows + i * bytes, stride, out + i, lane_stride);
    return i;
}

/* Transposes elements k .. k + n - 1 of rows row .. row + 15. k is a multiple of 16. */
static inline void panel_transpose(const struct gemm *gemm, uint32_t row, uint32_t k, uint32_t n,
                                   float *out, size_t lane_stride)
{
    const bool is_whole = gemm->n_out - row >= LANES;
    uint32_t i = 0;
    if (is_whole && gemm->w_dtype == DTYPE_F32)
        i = panel_whole_steps(DTYPE_F32, gemm, row, k, n, out, lane_stride);
    else if (is_whole && gemm->w_dtype == DTYPE_BF16)
        i = panel_whole_steps(DTYPE_BF16, gemm, row, k, n, out, lane_stride);
    if (i < n)
        panel_widen(gemm, row, k + i, n - i, out + i, lane_stride);
}
