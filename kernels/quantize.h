/*
 * quantize - rounds weight matrices to 8 and 4 bits, in the layout of struct gemm.
 *
 * A block of scale_rows x scale_columns weights (fewer at the edges) has one scale:
 *
 *     format        w      scale  block                    scale of the block
 *     INT8_ROWS     INT8   F32    1 x n_in                 largest magnitude / 127
 *     INT8_GROUPS   INT8   F32    1 x 32                   largest magnitude / 127
 *     E4M3_TENSOR   E4M3   F32    n_out x n_in             largest magnitude / 448
 *     E4M3_BLOCKS   E4M3   F32    128 x 128 (DeepSeek-V3)  largest magnitude / 448
 *     MXFP4         E2M1   E8M0   1 x 32 (OCP MX 1.0)      2^(floor(log2(largest magnitude)) - 2)
 *
 * A weight is stored as round(w / scale), to nearest even; MXFP4 saturates at 6. A block becomes zeros when all its
 * weights are zero or its scale underflows. A block that holds a NaN or an infinity gets a NaN as its scale, so
 * that it shows in every result.
 *
 * Thread: as kernel_set.h.
 */
#pragma once

#include "kernels/kernel_set.h"

#define QUANTIZE_GROUP    32u /* columns that share a scale: INT8_GROUPS, MXFP4 */
#define QUANTIZE_E4M3_MAX 448.0f
#define QUANTIZE_INT8_MAX 127.0f

enum quantize_format {
    QUANTIZE_INT8_ROWS,
    QUANTIZE_INT8_GROUPS, /* n_in is a multiple of 32 */
    QUANTIZE_E4M3_TENSOR,
    QUANTIZE_E4M3_BLOCKS,
    QUANTIZE_MXFP4, /* n_in is a multiple of 32 */
};

struct quantized {
    enum dtype dtype;
    uint32_t n_out, n_in;
    uint32_t scale_rows, scale_columns;
    void *w;      /* [n_out][n_in] */
    void *scales; /* [ceil(n_out / scale_rows)][ceil(n_in / scale_columns)] */
};

/* Sets the layout of a matrix. w and scales are NULL: the caller allocates them.
 * INVALID_ARGUMENT: no rows or columns, or n_in is no multiple of 32 where it must be. */
MUST_CHECK enum status quantized_init(enum quantize_format format, uint32_t n_out, uint32_t n_in,
                                      struct quantized *quantized_out, struct error *error);
size_t quantized_w_bytes(const struct quantized *quantized);
size_t quantized_scales_bytes(const struct quantized *quantized);

/* Makes w and scales; a row of blocks is one task. source: [n_out][n_in] F32, BF16 or F16; for INT8 also blocks
 * (blocks.h), of which a row is whole ones. */
void quantize(struct thread_pool *pool, const struct quantized *quantized, enum dtype source_dtype,
              const void *source);

/* The scale of weight (o, i) of any gemm; 1 if it has no scales. */
float dequantize_scale(const struct gemm *gemm, uint32_t o, uint32_t i);

/* Row o of any gemm's weights times their scales, rounded to float32: [n_in]. */
void dequantize_row(const struct gemm *gemm, uint32_t o, float *row_out);
