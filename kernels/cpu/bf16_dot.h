/*
 * bf16_dot - the product by VDPBF16PS: up to 6 rows by 64 columns in registers, the second of each pair
 * added before the first.
 */
#pragma once

#include "kernels/cpu/bf16_product.h"

enum { BF16_ROWS = 6, BF16_VECS = 4 };

static void bf16_start(void)
{
}

static void bf16_finish(void)
{
}

INLINE __m512bh bf16_pair(const uint16_t *pair)
{
    int32_t both;
    memcpy(&both, pair, sizeof both);
    return (__m512bh)_mm512_set1_epi32(both);
}

/* a, b, c: the first elements. */
INLINE void bf16_block(const uint32_t n_rows, const uint32_t n_vecs,
                       const struct bf16_product *product, const uint16_t *a, const uint16_t *b,
                       float *c)
{
    vec sums[BF16_ROWS * BF16_VECS];
    UNROLL
    for (uint32_t i = 0; i < n_rows * n_vecs; i++)
        sums[i] = product->adds ? vec_load(c + i / n_vecs * product->c_stride + i % n_vecs * LANES)
                                : vec_zero();
    for (uint32_t pair = 0; pair < product->n_pairs; pair++, a += 2, b += product->b_stride) {
        __m512bh columns[BF16_VECS];
        UNROLL
        for (uint32_t n = 0; n < n_vecs; n++)
            columns[n] = (__m512bh)_mm512_loadu_si512(b + 2 * (size_t)n * LANES);
        UNROLL
        for (uint32_t r = 0; r < n_rows; r++) {
            const __m512bh row = bf16_pair(a + r * product->a_stride);
            UNROLL
            for (uint32_t n = 0; n < n_vecs; n++)
                sums[r * n_vecs + n] = _mm512_dpbf16_ps(sums[r * n_vecs + n], row, columns[n]);
        }
    }
    UNROLL
    for (uint32_t i = 0; i < n_rows * n_vecs; i++)
        vec_store(c + i / n_vecs * product->c_stride + i % n_vecs * LANES, sums[i]);
}

INLINE void bf16_columns(const uint32_t n_rows, const struct bf16_product *product,
                         const uint16_t *a, float *c)
{
    uint32_t column = 0;
    for (; column + BF16_VECS * LANES <= product->n_columns; column += BF16_VECS * LANES)
        bf16_block(n_rows, BF16_VECS, product, a, product->b + 2 * (size_t)column, c + column);
    for (; column < product->n_columns; column += LANES)
        bf16_block(n_rows, 1, product, a, product->b + 2 * (size_t)column, c + column);
}

static void bf16_multiply(const struct bf16_product *product)
{
    const uint16_t *a = product->a;
    float *c = product->c;
    uint32_t n_left = product->n_rows;
    for (; n_left >= BF16_ROWS; n_left -= BF16_ROWS) {
        bf16_columns(BF16_ROWS, product, a, c);
        a += BF16_ROWS * product->a_stride;
        c += BF16_ROWS * product->c_stride;
    }
    for (; n_left > 0; n_left--, a += product->a_stride, c += product->c_stride)
        bf16_columns(1, product, a, c);
}
