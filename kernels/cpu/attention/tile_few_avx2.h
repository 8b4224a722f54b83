/*
 * tile_few_avx2 - what tile_few.h needs of AVX2: eight keys in a register.
 *
 *     packed [words of a row][registers of eight keys]: eight words, one a key. A word has 4 / bytes of an element dims.
 *     F16 and E4M3 as F16: [dims of a word][eight keys] instead, and the words of E4M3 are twice as long.
 */
#pragma once

#include "kernels/cpu/attention/tile_transpose_avx2.h"

enum { FEW_KEYS = STRIP_KEYS, FEW_REGS_MAX = 10 };

/* few_values of E4M3 are divided by this, and Q is multiplied by it in their place. */
#define FEW_E4M3_UNIT E4M3_OF_HALF

typedef __m256 few_vec;

INLINE few_vec few_zero(void)
{
    return _mm256_setzero_ps();
}

INLINE few_vec few_set(float element)
{
    return _mm256_set1_ps(element);
}

INLINE few_vec few_fma(few_vec element, few_vec keys, few_vec sum)
{
    return _mm256_fmadd_ps(element, keys, sum);
}

INLINE void few_store(float *scores, few_vec sum)
{
    _mm256_storeu_ps(scores, sum);
}

/* The registers of scores of a row. */
INLINE uint32_t few_row_regs(const enum dtype dtype, const uint32_t n_rows)
{
    if (n_rows > 2)
        return 2;
    return n_rows == 1 && dtype != DTYPE_F32 && dtype != DTYPE_E4M3 ? 8 : 4;
}

/* The elements of a word. */
INLINE uint32_t few_word_dims(const enum dtype dtype)
{
    return 4 / (uint32_t)dtype_bytes(dtype);
}

/* Floats of packed for a word of eight keys. */
INLINE uint32_t few_word_floats(const enum dtype dtype)
{
    return dtype == DTYPE_E4M3 ? 2 * STRIP_KEYS : STRIP_KEYS;
}

/* The keys' lanes of two F16 in each word become two vectors of eight F16. */
INLINE __m256i part_halves(__m256i words)
{
    const __m256i halves = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15, 0,
                                            1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
    return _mm256_permute4x64_epi64(_mm256_shuffle_epi8(words, halves), 0xd8);
}

/* Stores a word of eight keys. */
INLINE void store_words(const enum dtype dtype, __m256 column, float *packed)
{
    const __m256i words = _mm256_castps_si256(column);
    if (dtype == DTYPE_F16) {
        _mm256_storeu_si256((__m256i *)(void *)packed, part_halves(words));
    } else if (dtype == DTYPE_E4M3) {
        __m256i even = e4m3_halves(_mm256_slli_epi16(words, 8));
        _mm256_storeu_si256((__m256i *)(void *)packed, part_halves(even));
        _mm256_storeu_si256((__m256i *)(void *)(packed + STRIP_KEYS),
                            part_halves(e4m3_halves(words)));
    } else {
        _mm256_storeu_ps(packed, column);
    }
}

/* The first n < 8 words. */
INLINE __m256 load_some_words(const char *words, uint32_t n)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_maskload_ps((const float *)(const void *)words,
                              _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), lane));
}

/* Transposes a strip of keys; step: the floats of packed from word to word. */
INLINE void few_transpose(const enum dtype dtype, const char *const keys[STRIP_KEYS],
                          uint32_t n_words, uint32_t step, float *packed)
{
    for (uint32_t word = 0; word < n_words; word += 8) {
        const uint32_t n = n_words - word;
        __m256 row[STRIP_KEYS], column[STRIP_KEYS];
        UNROLL
        for (uint32_t i = 0; i < STRIP_KEYS; i++) {
            const char *words = keys[i] + 4 * (size_t)word;
            row[i] = n >= 8 ? _mm256_loadu_ps((const float *)(const void *)words)
                            : load_some_words(words, n);
        }
        transpose8(row, column);
        UNROLL
        for (uint32_t i = 0; i < STRIP_KEYS; i++)
            if (i < n)
                store_words(dtype, column[i], packed + (size_t)(word + i) * step);
    }
}

/* Dim i of a word of eight keys. */
INLINE __m256 few_values(const enum dtype dtype, const float *packed, const uint32_t i)
{
    const __m256i words = _mm256_loadu_si256((const __m256i *)(const void *)packed);
    if (dtype == DTYPE_F32)
        return _mm256_castsi256_ps(words);
    if (dtype == DTYPE_BF16)
        return _mm256_castsi256_ps(
            i == 0 ? _mm256_slli_epi32(words, 16)
                   : _mm256_and_si256(words, _mm256_set1_epi32((int)0xffff0000u)));
    if (dtype == DTYPE_INT8)
        return _mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(words, 24 - 8 * (int)i), 24));
    const char *halves = (const char *)packed;
    if (dtype == DTYPE_F16)
        return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(halves + 16 * i)));
    halves += 32 * (i % 2) + 16 * (i / 2);
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)halves));
}
