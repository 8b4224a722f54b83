/*
 * gemm_panels - packed INT8 weights, and tokens rounded to INT8.
 *
 * Packed weights are panels of 16 rows. A panel is its groups in order. A group is 16 float scales, then
 * [group_len / 4][16 rows][4] bytes, each a count plus 128. A group is a whole row, padded with zeros to a multiple of
 * 64, or 32 elements of it.
 *
 *     y[t][o] = sum over groups of (float)(sum of counts of w and x) * (scale of w * scale of x)
 *
 * The groups are added by fused multiply-adds, in order: the bits are the same on every instruction set.
 */
#pragma once

#include "kernels/cpu/products/gemm_path.h"
#include "kernels/cpu/vector/int8.h"
#include "kernels/cpu/vector/vec.h"

enum {
    PANEL_ROWS = 16,
    PANEL_SCALE_BYTES = PANEL_ROWS * sizeof(float),
    GROUP_LEN = 32,
    ROW_LEN_STEP = 64,
    N_IN_MAX = 131072,            /* a sum of this many products of counts is below 2^31 */
    TOKENS_BYTES_MAX = 512 << 10, /* of a task, which meets at least one token */
};
#ifdef HAS_PAIRS
enum {
    TOKENS_MAX = 192,
    TOKENS_BYTES_BEST = 320 << 10, /* leaves room in a second-level cache of 512 KiB */
    COUNTS_PAD = 32, /* rows apart by 4 KiB would share a few sets of the first level */
};
#else
enum { TOKENS_MAX = 64, TOKENS_BYTES_BEST = TOKENS_BYTES_MAX, COUNTS_PAD = 0 };
#endif

struct panels {
    uint32_t n_groups, group_len;
    size_t group_bytes, panel_bytes;
    size_t stride;      /* counts from token to token */
    size_t token_bytes; /* counts, scales and corrections of a rounded token */
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
    panels.stride = (size_t)panels.n_groups * panels.group_len + COUNTS_PAD;
    panels.token_bytes = panels.stride * sizeof(count) +
                         panels.n_groups * (sizeof(float) + sizeof(int32_t));
    return panels;
}

/* The rounded tokens of a part: x ~ counts * scales. A correction is -128 * the sum of a group's counts. */
struct rounded {
    count *counts;        /* [tokens][stride] */
    float *scales;        /* [tokens][n_groups] */
    int32_t *corrections; /* [tokens][n_groups] */
    size_t stride;
};

/* y[token][row ..] of n_tokens x n_panels = sums[token][panel] + bias (+ y); panels are panel_rows apart. It is not `inline`: a copy
 * in every tile makes the code half as long again. */
static void gemm_panels_store(const struct gemm *gemm, uint32_t token, uint32_t n_tokens,
                              uint32_t row, uint32_t n_panels, uint32_t panel_rows, const vec *sums)
{
    for (uint32_t t = 0; t < n_tokens; t++)
        for (uint32_t p = 0; p < n_panels; p++)
            gemm_store_vec(gemm, token + t, row + p * panel_rows, sums[t * n_panels + p]);
}
