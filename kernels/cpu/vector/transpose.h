/*
 * transpose - transposes blocks of elements of 32 bits in registers: 8 x 8 with AVX2, 16 x 16 with AVX-512; and sixteen rows of
 * sixteen weights into columns of floats.
 */
#pragma once

#include "kernels/cpu/vector/vec.h"

#ifdef __AVX2__
/* 8 x 8: lane j of row i becomes lane i of out[j]. */
INLINE void transpose8(const __m256 row[8], __m256 out[8])
{
    __m256 pair[8], quad[8];
    UNROLL
    for (int i = 0; i < 8; i += 2) {
        pair[i] = _mm256_unpacklo_ps(row[i], row[i + 1]);
        pair[i + 1] = _mm256_unpackhi_ps(row[i], row[i + 1]);
    }
    UNROLL
    for (int i = 0; i < 8; i += 4) {
        quad[i] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0x44);
        quad[i + 1] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0xee);
        quad[i + 2] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0x44);
        quad[i + 3] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0xee);
    }
    UNROLL
    for (int i = 0; i < 4; i++) {
        out[i] = _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x20);
        out[i + 4] = _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x31);
    }
}

/* Sixteen floats of each of sixteen rows, stride bytes apart: element k of row r goes to out[k * out_stride + r]. */
INLINE void transpose_floats(const char *rows, size_t stride, float *out, size_t out_stride)
{
    UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t half = i / 2 * 8, k = i % 2 * 8; /* a line at once: rows may share sets */
        __m256 row[8], column[8];
        UNROLL
        for (uint32_t r = 0; r < 8; r++)
            row[r] = _mm256_loadu_ps(
                (const float *)(const void *)(rows + (half + r) * stride + k * sizeof(float)));
        transpose8(row, column);
        UNROLL
        for (uint32_t c = 0; c < 8; c++)
            _mm256_storeu_ps(out + (k + c) * out_stride + half, column[c]);
    }
}

/* The same of sixteen BF16: transposes pairs of elements as one, then separates them. */
INLINE void transpose_bf16(const char *rows, size_t stride, float *out, size_t out_stride)
{
    const __m256i high = _mm256_set1_epi32((int)0xffff0000u);
    UNROLL
    for (uint32_t half = 0; half < LANES; half += 8) {
        __m256 row[8], column[8];
        UNROLL
        for (uint32_t r = 0; r < 8; r++)
            row[r] = _mm256_loadu_ps((const float *)(const void *)(rows + (half + r) * stride));
        transpose8(row, column);
        UNROLL
        for (uint32_t c = 0; c < 8; c++) {
            const __m256i pair = _mm256_castps_si256(column[c]);
            float *even = out + (size_t)(2 * c) * out_stride + half;
            _mm256_storeu_ps(even, _mm256_castsi256_ps(_mm256_slli_epi32(pair, 16)));
            _mm256_storeu_ps(even + out_stride, _mm256_castsi256_ps(_mm256_and_si256(pair, high)));
        }
    }
}
#endif

#ifdef __AVX512F__
/* Lane j of row i becomes lane i of row j, in place. */
INLINE void transpose16(__m512 row[16])
{
    __m512 pair[16], quad[16];
    UNROLL
    for (int i = 0; i < 16; i += 2) {
        pair[i] = _mm512_unpacklo_ps(row[i], row[i + 1]);
        pair[i + 1] = _mm512_unpackhi_ps(row[i], row[i + 1]);
    }
    UNROLL
    for (int i = 0; i < 16; i += 4) { /* quarter q of quad[i + c]: rows i .. i + 3 of 4 q + c */
        quad[i] = _mm512_shuffle_ps(pair[i], pair[i + 2], 0x44);
        quad[i + 1] = _mm512_shuffle_ps(pair[i], pair[i + 2], 0xee);
        quad[i + 2] = _mm512_shuffle_ps(pair[i + 1], pair[i + 3], 0x44);
        quad[i + 3] = _mm512_shuffle_ps(pair[i + 1], pair[i + 3], 0xee);
    }
    UNROLL
    for (int c = 0; c < 4; c++) {
        __m512 even_low = _mm512_shuffle_f32x4(quad[c], quad[4 + c], 0x88);
        __m512 even_high = _mm512_shuffle_f32x4(quad[8 + c], quad[12 + c], 0x88);
        __m512 odd_low = _mm512_shuffle_f32x4(quad[c], quad[4 + c], 0xdd);
        __m512 odd_high = _mm512_shuffle_f32x4(quad[8 + c], quad[12 + c], 0xdd);
        row[c] = _mm512_shuffle_f32x4(even_low, even_high, 0x88);
        row[8 + c] = _mm512_shuffle_f32x4(even_low, even_high, 0xdd);
        row[4 + c] = _mm512_shuffle_f32x4(odd_low, odd_high, 0x88);
        row[12 + c] = _mm512_shuffle_f32x4(odd_low, odd_high, 0xdd);
    }
}

#endif
