/* tile_transpose_avx2 - transposes the keys of a tile into columns of k_t, eight at a time. */
#pragma once

#include "kernels/cpu/attention/tile.h"
#include "kernels/cpu/vector/transpose.h"

enum { TRANSPOSED_STRIPS = 1 };

INLINE __m256 load8(enum dtype dtype, const char *row, uint32_t dim)
{
    if (dtype == DTYPE_F32)
        return _mm256_loadu_ps((const float *)(const void *)row + dim);
    if (dtype == DTYPE_INT8 || dtype == DTYPE_E4M3) {
        __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)(row + dim));
        return dtype == DTYPE_E4M3 ? widen_e4m3(bytes)
                                   : _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
    }
    __m128i raw = _mm_loadu_si128((const __m128i *)(const void *)(row + 2 * dim));
    if (dtype == DTYPE_F16)
        return _mm256_cvtph_ps(raw);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(raw), 16));
}

/* Sixteen dims of a strip of BF16: transposes pairs of elements as one, then separates them. */
INLINE void load_k_pairs(const __m256 row[STRIP_KEYS], float *k_t)
{
    __m256 pairs[STRIP_KEYS];
    transpose8(row, pairs);
    UNROLL
    for (uint32_t i = 0; i < STRIP_KEYS; i++) {
        __m256i pair = _mm256_castps_si256(pairs[i]);
        __m256i even = _mm256_slli_epi32(pair, 16);
        __m256i odd = _mm256_and_si256(pair, _mm256_set1_epi32((int)0xffff0000u));
        _mm256_storeu_ps(k_t + (size_t)(2 * i) * TILE_KEYS, _mm256_castsi256_ps(even));
        _mm256_storeu_ps(k_t + (size_t)(2 * i + 1) * TILE_KEYS, _mm256_castsi256_ps(odd));
    }
}

/* Transposes a strip of keys into columns of k_t. */
INLINE void transpose_keys(const enum dtype dtype, const char *const keys[STRIP_KEYS],
                           uint32_t head_dim, struct tile_ahead *ahead, float *k_t)
{
    uint32_t dim = 0;
    for (; dtype == DTYPE_BF16 && dim + 16 <= head_dim; dim += 16) {
        __m256 row[STRIP_KEYS];
        tile_ask(ahead);
        UNROLL
        for (uint32_t i = 0; i < STRIP_KEYS; i++)
            row[i] = _mm256_loadu_ps((const float *)(const void *)(keys[i] + 2 * dim));
        load_k_pairs(row, k_t + (size_t)dim * TILE_KEYS);
    }
    for (; dim < head_dim; dim += 8) {
        __m256 row[STRIP_KEYS], column[STRIP_KEYS];
        tile_ask(ahead);
        UNROLL
        for (uint32_t i = 0; i < STRIP_KEYS; i++)
            row[i] = load8(dtype, keys[i], dim);
        transpose8(row, column);
        UNROLL
        for (uint32_t i = 0; i < STRIP_KEYS; i++)
            _mm256_storeu_ps(k_t + (size_t)(dim + i) * TILE_KEYS, column[i]);
    }
}
