/*
 * bf16_product - a small product of BF16 matrices: C = A B, or C += A B, added in float32.
 *
 * Pairs of the inner dimension lie side by side:
 *
 *     a [n_rows][n_pairs][2]    b [n_pairs][n_columns][2]    c [n_rows][n_columns] float32
 *
 * n_pairs and n_columns are multiples of 16. A sum depends on its own row, column and the pairs alone.
 * Numbers below 2^-126 count as zero.
 */
#pragma once

#include "kernels/cpu/vec.h"

struct bf16_product {
    uint32_t n_rows, n_columns, n_pairs;
    const uint16_t *a, *b;
    float *c;
    size_t a_stride, b_stride, c_stride; /* from row to row, in elements */
    bool adds;
};
