/*
 * half_dot - the product with VDPBF16PS or VFMADDPH: up to 6 rows by 64 columns in registers.
 *
 * VDPBF16PS adds the second of each pair before the first. With VFMADDPH first and second elements are summed
 * separately, then the two sums are added.
 */
#pragma once

#include "kernels/cpu/attention/half_product.h"

enum { HALF_ROWS = 6, HALF_VECS = 4 };

static void half_start(void)
{
}

static void half_finish(void)
{
}

INLINE __m512i half_pair(const uint16_t *pair)
{
    int32_t both;
    memcpy(&both, pair, sizeof both);
    return _mm512_set1_epi32(both);
}

#ifdef __AVX512FP16__
/* The sums of first and of second elements, side by side. */
typedef __m512h half_sums;

INLINE half_sums half_zero(void)
{
    return _mm512_setzero_ph();
}

INLINE half_sums half_add(half_sums sums, __m512i row, __m512i columns)
{
    return _mm512_fmadd_ph((__m512h)row, (__m512h)columns, sums);
}

INLINE vec half_total(half_sums sums)
{
    __m512h seconds = (__m512h)_mm512_srli_epi32((__m512i)sums, 16);
    __m512i both = (__m512i)_mm512_add_ph(sums, seconds);
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(both));
}

enum { HALF_RUN = 16 }; /* pairs that are summed in FP16 before float32 */
#else
typedef vec half_sums;

INLINE half_sums half_zero(void)
{
    return vec_zero();
}

INLINE half_sums half_add(half_sums sums, __m512i row, __m512i columns)
{
    return _mm512_dpbf16_ps(sums, (__m512bh)row, (__m512bh)columns);
}

INLINE vec half_total(half_sums sums)
{
    return sums;
}

enum { HALF_RUN = 1 << 16 }; /* all pairs */
#endif

/* n_rows rows by n_vecs vectors of columns; a, b, c: the first elements. */
INLINE void half_run(const uint32_t n_rows, const uint32_t n_vecs,
                     const struct half_product *product, uint32_t n_pairs, bool adds,
                     const uint16_t *a, const uint16_t *b, float *c)
{
    half_sums sums[HALF_ROWS * HALF_VECS];
    UNROLL
    for (uint32_t i = 0; i < n_rows * n_vecs; i++)
        sums[i] = half_zero();
    for (uint32_t pair = 0; pair < n_pairs; pair++, a += 2, b += product->b_stride) {
        __m512i columns[HALF_VECS];
        UNROLL
        for (uint32_t n = 0; n < n_vecs; n++)
            columns[n] = _mm512_loadu_si512(b + 2 * (size_t)n * LANES);
        UNROLL
        for (uint32_t r = 0; r < n_rows; r++) {
            const __m512i row = half_pair(a + r * product->a_stride);
            UNROLL
            for (uint32_t n = 0; n < n_vecs; n++)
                sums[r * n_vecs + n] = half_add(sums[r * n_vecs + n], row, columns[n]);
        }
    }
    UNROLL
    for (uint32_t i = 0; i < n_rows * n_vecs; i++) {
        float *sum = c + i / n_vecs * product->c_stride + i % n_vecs * LANES;
        vec total = half_total(sums[i]);
        vec_store(sum, adds ? vec_add(vec_load(sum), total) : total);
    }
}

INLINE void half_block(const uint32_t n_rows, const uint32_t n_vecs,
                       const struct half_product *product, const uint16_t *a, const uint16_t *b,
                       float *c)
{
    for (uint32_t first = 0, n; first < product->n_pairs; first += n) {
        n = product->n_pairs - first < HALF_RUN ? product->n_pairs - first : HALF_RUN;
        half_run(n_rows, n_vecs, product, n, product->adds || first > 0, a + 2 * (size_t)first,
                 b + first * product->b_stride, c);
    }
}

INLINE void half_columns(const uint32_t n_rows, const struct half_product *product,
                         const uint16_t *a, float *c)
{
    uint32_t column = 0;
    for (; column + HALF_VECS * LANES <= product->n_columns; column += HALF_VECS * LANES)
        half_block(n_rows, HALF_VECS, product, a, product->b + 2 * (size_t)column, c + column);
    for (; column < product->n_columns; column += LANES)
        half_block(n_rows, 1, product, a, product->b + 2 * (size_t)column, c + column);
}

static void half_multiply(const struct half_product *product)
{
    const uint16_t *a = product->a;
    float *c = product->c;
    uint32_t n_left = product->n_rows;
    for (; n_left >= HALF_ROWS; n_left -= HALF_ROWS) {
        half_columns(HALF_ROWS, product, a, c);
        a += HALF_ROWS * product->a_stride;
        c += HALF_ROWS * product->c_stride;
    }
    for (; n_left > 0; n_left--, a += product->a_stride, c += product->c_stride)
        half_columns(1, product, a, c);
}
