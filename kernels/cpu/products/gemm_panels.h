/*
 * gemm_panels - packed INT8 weights, and tokens rounded to INT8.
 *
 * Packed: panels of 16 rows; a panel's groups in order; a group is 16 float scales, then
 * [group_len / 4][16 rows][4] bytes, each a count plus 128. A group is a whole row, padded to a
 * multiple of 64, or 32 elements of it. What pads counts as 0.
 *
 *     y[t][o] = sum over groups of (float)(sum of counts of w and x) * (scale of w * scale of x)
 *
 * each group added by a fused multiply-add, in order: the same bits on every instruction set.
 */
#pragma once

#include "kernels/cpu/products/gemm_path.h"
#include "kernels/cpu/vector/vec.h"

enum {
    PANEL_ROWS = 16,
    PANEL_SCALE_BYTES = PANEL_ROWS * sizeof(float),
    GROUP_LEN = 32,
    ROW_LEN_STEP = 64,
    TOKENS_MAX = 64,
    N_IN_MAX = 131072, /* a sum of so many products of counts stays below 2^31 */
    TOKENS_BYTES_MAX = 512 << 10,
};

struct panels {
    uint32_t n_groups, group_len;
    size_t group_bytes, panel_bytes;
    size_t token_bytes; /* a rounded token's counts, scales and corrections */
};

INLINE struct panels panels_of(const struct gemm *gemm)
{
    struct panels panels = {.n_groups = 1, .group_len = GROUP_LEN};
    if (gemm->w_scale_columns < gemm->n_in)
        panels.n_groups = (gemm->n_in + GROUP_LEN - 1) / GROUP_LEN;
    else
        panels.group_len = (gemm->n_in + ROW_LEN_STEP - 1) / ROW_LEN_STEP * ROW_LEN_STEP;
    panels.group_bytes = PANEL_SCALE_BYTES + (size_t)PANEL_ROWS * panels.group_len;
    panels.panel_bytes = panels.n_groups * panels.group_bytes;
    panels.token_bytes = panels.n_groups * (panels.group_len + sizeof(float) + sizeof(int32_t));
    return panels;
}

/* Tokens of a part, rounded: x ~ counts * scales; corrections are -128 * sum of a group's counts. */
struct rounded {
    int8_t *counts;       /* [tokens][stride] */
    float *scales;        /* [tokens][n_groups] */
    int32_t *corrections; /* [tokens][n_groups] */
    size_t stride;
};

/* y[token][row ..] of n_tokens x n_panels = sums[token][panel] + bias (+ y). */
#define gemm_int8_store ISA(gemm_int8_store)
void gemm_int8_store(const struct gemm *gemm, uint32_t token, uint32_t n_tokens, uint32_t row,
                     uint32_t n_panels, const vec *sums);

#ifdef HAS_AMX_INT8
/* All tokens of the part by all its panels, 16 by 16 with the matrix unit. */
#define gemm_amx_int8 ISA(gemm_amx_int8)
void gemm_amx_int8(const struct gemm_part *part, const struct rounded *x);
#endif
