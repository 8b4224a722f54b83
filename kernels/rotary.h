/*
 * rotary - an operator: rotary position embedding of rows of heads.
 *
 *     x, y        [n_tokens][n_heads][head_dim]; strides allow any order of the first two
 *     cos, sin    [n_positions][rotary_dim / 2], as rope_angles fills them in
 *
 *     half-split   pairs (i, i + rotary_dim / 2)       interleaved  pairs (2i, 2i + 1)
 *     low'  = low * cos[position][i] - high * sin[position][i]
 *     high' = high * cos[position][i] + low * sin[position][i]
 *
 * It copies the elements after rotary_dim. It computes in float32 (reference: float64) and rounds once.
 *
 * Thread: as kernel_set.h.
 */
#pragma once

#include "base/status.h"
#include "kernels/dtype.h"

#include <stdbool.h>
#include <stdint.h>

/* Angles by position; borrowed. */
struct rotary_table {
    const float *cos, *sin;
    uint32_t n_positions;
    uint32_t rotary_dim; /* elements of a head that are rotated: even, up to head_dim */
    bool is_interleaved;
};

struct rotary {
    const void *x;
    void *y;          /* x itself, with the same strides; else x and y do not overlap */
    enum dtype dtype; /* of both: F32, BF16, F16; any alignment */
    uint64_t x_token_stride, x_head_stride, y_token_stride, y_head_stride; /* elements */
    uint32_t n_tokens, n_heads;
    uint32_t head_dim; /* a multiple of 8 up to HEAD_DIM_MAX */
    struct rotary_table table;
    const uint32_t *positions; /* [n_tokens]; NULL: start + the token's index */
    uint32_t start;
};

/* The caller checks once, before the operator runs. INVALID_ARGUMENT: a size, stride or dtype is not supported, or a
 * position is outside the table. */
MUST_CHECK enum status rotary_check(const struct rotary *rotary, struct error *error);

/* Checks the table alone, for other operators that rotate heads. */
MUST_CHECK enum status rotary_table_check(const struct rotary_table *table, uint32_t head_dim,
                                          struct error *error);
