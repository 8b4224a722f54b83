/*
 * tile_few_avx512 - what tile_few.h needs of AVX-512: sixteen keys in a register.
 *
 *     packed [words of a row][registers of sixteen keys]: sixteen words, one a key. A word has elements_per_lane dims, as the
 *     loads of tile_transpose_avx512.h make them: E4M3 without VBMI is BF16 there.
 *     F16: a word has two dims, and packed is [dims of a word][sixteen keys].
 */
#pragma once

#include "kernels/cpu/attention/tile_transpose_avx512.h"

enum { FEW_KEYS = TRANSPOSED_KEYS, FEW_REGS_MAX = 16 };

typedef vec few_vec;
#define few_zero  vec_zero
#define few_set   vec_set
#define few_fma   vec_fma
#define few_store vec_store

INLINE uint32_t few_word_dims(const enum dtype dtype)
{
    return dtype == DTYPE_F16 ? 2 : elements_per_lane(dtype);
}

INLINE uint32_t few_word_floats(const enum dtype dtype)
{
    (void)dtype;
    return FEW_KEYS;
}

/* The registers of scores of a row. */
INLINE uint32_t few_row_regs(const enum dtype dtype, const uint32_t n_rows)
{
    return n_rows <= 4 && dtype != DTYPE_F32 ? 4 : 2;
}

/* Stores a word of sixteen keys. */
INLINE void few_store_words(const enum dtype dtype, __m512 words, float *packed)
{
    static const uint16_t parts[32] = {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30,
                                       1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31};
    if (dtype == DTYPE_F16)
        words = _mm512_castsi512_ps(
            _mm512_permutexvar_epi16(_mm512_loadu_si512(parts), _mm512_castps_si512(words)));
    _mm512_storeu_ps(packed, words);
}

INLINE void few_transpose(const enum dtype dtype, const char *const keys[FEW_KEYS],
                          uint32_t n_words, uint32_t step, float *packed)
{
    const uint32_t n_per = few_word_dims(dtype);
    const enum dtype bits = dtype == DTYPE_F16 ? DTYPE_BF16 : dtype; /* loaded without a change */
    for (uint32_t word = 0; word < n_words; word += 16) {
        const uint32_t n = n_words - word;
        __m512 rows[FEW_KEYS];
        UNROLL
        for (uint32_t i = 0; i < FEW_KEYS; i++)
            rows[i] = load_elements(bits, keys[i], word * n_per, n < 16 ? n * n_per : 16 * n_per);
        transpose16(rows);
        UNROLL
        for (uint32_t i = 0; i < 16; i++)
            if (i < n)
                few_store_words(dtype, rows[i], packed + (size_t)(word + i) * step);
    }
}

/* Dim i of a word of sixteen keys. */
INLINE few_vec few_values(const enum dtype dtype, const float *packed, const uint32_t i)
{
    if (dtype == DTYPE_F16)
        return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)(packed + 8 * i)));
    const __m512 words = _mm512_loadu_ps(packed);
    __m512 values[4];
    widen_elements(dtype, words, values);
    return values[i];
}
