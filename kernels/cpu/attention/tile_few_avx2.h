/*
 * tile_few_avx2 - the scores of a few rows. The keys of a tile are transposed some at a time, in words of 32 bits that stay
 * in the L1 cache, and are widened when they are multiplied. The sum of a score has the same order as in tile_qk.
 *
 *     packed [words of a row][strips of eight keys]: eight words, one a key. A word has 4 / bytes of an element dims.
 *     F16 and E4M3 as F16: [dims of a word][eight keys] instead, and the words of E4M3 are twice as long.
 */
#pragma once

#include "kernels/cpu/attention/tile_transpose_avx2.h"

enum { FEW_VECS_MAX = 5 }; /* of scores, in registers: one or more a row */

/* The elements of a word. */
INLINE uint32_t word_dims(const enum dtype dtype)
{
    return 4 / (uint32_t)dtype_bytes(dtype);
}

/* Floats of packed for a word of eight keys. */
INLINE uint32_t word_floats(const enum dtype dtype)
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
    __m256 small = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)halves));
    return _mm256_mul_ps(small, _mm256_set1_ps(E4M3_OF_HALF));
}

/* The scores of n_rows for the 2 * n_vecs strips in packed. */
INLINE void few_qk(const enum dtype dtype, const uint32_t n_rows, const uint32_t n_vecs,
                   uint32_t n_lines, const struct tile_few_keys *op, const float *q, float *scores)
{
    const uint32_t head_dim = op->head_dim;
    const float *packed = op->packed;
    const uint32_t dims = word_dims(dtype), floats = word_floats(dtype);
    __m256 acc[FEW_VECS_MAX * 2];
    UNROLL
    for (uint32_t i = 0; i < n_rows * n_vecs * 2; i++)
        acc[i] = _mm256_setzero_ps();
    for (uint32_t dim = 0; dim < head_dim; dim += dims, packed += n_vecs * 2 * floats) {
        tile_ask_lines(n_lines, op->ahead);
        UNROLL
        for (uint32_t i = 0; i < dims; i++) {
            __m256 keys[FEW_VECS_MAX * 2];
            UNROLL
            for (uint32_t n = 0; n < n_vecs * 2; n++)
                keys[n] = few_values(dtype, packed + n * floats, i);
            UNROLL
            for (uint32_t r = 0; r < n_rows; r++) {
                __m256 element = _mm256_set1_ps(q[r * head_dim + dim + i]);
                UNROLL
                for (uint32_t n = 0; n < n_vecs * 2; n++)
                    acc[r * n_vecs * 2 + n] = _mm256_fmadd_ps(element, keys[n],
                                                              acc[r * n_vecs * 2 + n]);
            }
        }
    }
    UNROLL
    for (uint32_t r = 0; r < n_rows; r++) {
        UNROLL
        for (uint32_t n = 0; n < n_vecs * 2; n++)
            _mm256_storeu_ps(scores + r * TILE_KEYS + n * STRIP_KEYS, acc[r * n_vecs * 2 + n]);
    }
}

INLINE void few_rows(const enum dtype dtype, const uint32_t n_rows, const uint32_t n_vecs,
                     const struct tile_few_keys *op)
{
    const uint32_t n_words = op->head_dim / word_dims(dtype);
    const uint32_t first = n_rows > FEW_VECS_MAX ? (n_rows + 1) / 2 : n_rows;
    const uint32_t step = n_vecs * 2 * word_floats(dtype);
    const uint32_t n_steps = (op->n_keys + n_vecs * LANES - 1) / (n_vecs * LANES) * n_words;
    const uint32_t n_lines = (tile_ask_left(op->ahead) / 2 + n_steps - 1) / n_steps;
    for (uint32_t key = 0; key < op->n_keys; key += n_vecs * LANES) {
        for (uint32_t strip = 0; strip < n_vecs * 2; strip++) {
            const char *keys[STRIP_KEYS];
            strip_keys(op->k, key / STRIP_KEYS + strip, op->n_keys, keys);
            few_transpose(dtype, keys, n_words, step, op->packed + strip * word_floats(dtype));
        }
        few_qk(dtype, first, n_vecs, n_lines, op, op->q, op->scores + key);
        if (first < n_rows)
            few_qk(dtype, n_rows - first, n_vecs, 0, op, op->q + first * op->head_dim,
                   op->scores + first * TILE_KEYS + key);
    }
}

INLINE void few_as(const enum dtype dtype, uint32_t n_rows, const struct tile_few_keys *op)
{
    switch (n_rows) {
    case 1:
        few_rows(dtype, 1, dtype == DTYPE_F32 ? 2 : 4, op);
        break;
    case 2:
        few_rows(dtype, 2, 2, op);
        break;
    case 3:
        few_rows(dtype, 3, 1, op);
        break;
    case 4:
        few_rows(dtype, 4, 1, op);
        break;
    case 5:
        few_rows(dtype, 5, 1, op);
        break;
    case 6:
        few_rows(dtype, 6, 1, op);
        break;
    case 7:
        few_rows(dtype, 7, 1, op);
        break;
    default:
        assert(n_rows == TILE_FEW_ROWS);
        few_rows(dtype, TILE_FEW_ROWS, 1, op);
    }
}

void tile_few(uint32_t n_rows, const struct tile_few_keys *op)
{
    FOR_DTYPE(op->k->dtype, few_as, n_rows, op);
}
