/*
 * half_product - computes a small product of matrices of 16-bit floats: C = A B, or C += A B.
 *
 * Pairs of elements of the inner dimension are side by side:
 *
 *     a [n_rows][n_pairs][2]    b [n_pairs][n_columns][2]    c [n_rows][n_columns] float32
 *
 * n_pairs and n_columns are multiples of 16. A sum depends only on its row, its column and n_pairs.
 * BF16 is summed in float32; numbers below 2^-126 count as zero. FP16 is summed in FP16 for sixteen
 * pairs; these sums are added in float32.
 */
#pragma once

#include "kernels/cpu/vector/vec.h"

struct half_product {
    uint32_t n_rows, n_columns, n_pairs;
    const uint16_t *a, *b;
    float *c;
    size_t a_stride, b_stride, c_stride; /* from row to row, in elements */
    bool adds;
};
