/*
 * block_take - takes up to 256 elements of eight rows of blocks apart with AVX2, and either stores them as a panel has them, or
 * multiplies them with one token at once.
 */
#pragma once

#include "kernels/cpu/products/block_chunk.h"
#include "kernels/cpu/products/block_parts.h"
#include "kernels/cpu/products/gemm_path.h"
#include "kernels/cpu/vector/pairs16.h"
#include "kernels/cpu/vector/transpose.h"

#ifdef __AVX2__

/* Eight rows, from one element on. */
struct eight_rows {
    const uint8_t *at[EIGHT];
};

/* Where the elements of eight rows go: to wide, as a panel has them; or they meet the counts of a token. */
struct taker {
    int16_t *wide;
    const int16_t *counts;
};

INLINE __m256i multiply_pair(__m256i sum, __m256i pairs, const int16_t *counts)
{
    int32_t two;
    memcpy(&two, counts, sizeof two);
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi32(two)));
}

/* Elements 0 and 2, then 1 and 3 of a step of four. */
INLINE void give(const bool is_one, const struct taker *taker, uint32_t step, __m256i even,
                 __m256i odd, __m256i *sum)
{
    if (is_one) {
        const int16_t *counts = taker->counts + (size_t)step * STEP16;
        *sum = multiply_pair(multiply_pair(*sum, even, counts), odd, counts + 2);
    } else {
        int16_t *wide = taker->wide + (size_t)step * STEP16_WIDE;
        _mm256_store_si256((__m256i *)(void *)wide, even);
        _mm256_store_si256((__m256i *)(void *)(wide + 2 * LANES), odd);
    }
}

/* 32 elements of eight rows as bytes, which begin at a step. */
INLINE void take_bytes(const bool is_one, const __m256 part[EIGHT], uint32_t step, __m256i sums[2],
                       const struct taker *taker)
{
    __m256 column[EIGHT];
    transpose8(part, column);
    UNROLL
    for (uint32_t c = 0; c < EIGHT; c++) {
        const __m256i bytes = _mm256_castps_si256(column[c]);
        give(is_one, taker, step + c, _mm256_and_si256(bytes, _mm256_set1_epi16(0xff)),
             _mm256_srli_epi16(bytes, 8), &sums[c / 4]);
    }
}

/* Bytes with two elements: the low ones are of one step, the high ones of another. */
INLINE void take_halves(const bool is_one, __m256 column, uint32_t low_step, uint32_t high_step,
                        __m256i *low_sum, __m256i *high_sum, const struct taker *taker)
{
    const __m256i bytes = _mm256_castps_si256(column), low = _mm256_set1_epi16(0xf);
    give(is_one, taker, low_step, _mm256_and_si256(bytes, low),
         _mm256_and_si256(_mm256_srli_epi16(bytes, 8), low), low_sum);
    give(is_one, taker, high_step, _mm256_and_si256(_mm256_srli_epi16(bytes, 4), low),
         _mm256_srli_epi16(bytes, 12), high_sum);
}

INLINE __m128i load16(const uint8_t *bytes)
{
    return _mm_loadu_si128((const __m128i *)(const void *)bytes);
}

/* 32 elements in sixteen bytes of each row. */
INLINE void take_sixteen(const bool is_one, const struct eight_rows *rows, size_t at, uint32_t step,
                         __m256i sums[2], const struct taker *taker)
{
    __m256 pair[4], quad[4];
    UNROLL
    for (uint32_t r = 0; r < 4; r++)
        pair[r] = _mm256_castsi256_ps(_mm256_inserti128_si256(
            _mm256_castsi128_si256(load16(rows->at[r] + at)), load16(rows->at[r + 4] + at), 1));
    UNROLL
    for (uint32_t i = 0; i < 4; i += 2) {
        quad[i] = _mm256_unpacklo_ps(pair[i], pair[i + 1]);
        quad[i + 1] = _mm256_unpackhi_ps(pair[i], pair[i + 1]);
    }
    UNROLL
    for (uint32_t c = 0; c < 4; c++) {
        const __m256 a = quad[c / 2], b = quad[2 + c / 2];
        take_halves(is_one, c % 2 ? _mm256_shuffle_ps(a, b, 0xee) : _mm256_shuffle_ps(a, b, 0x44),
                    step + c, step + c + 4, &sums[0], &sums[1], taker);
    }
}

/* 64 elements in 32 bytes of each row: two groups. */
INLINE void take_thirty_two(const bool is_one, const struct eight_rows *rows, size_t at,
                            uint32_t step, __m256i sums[2], const struct taker *taker)
{
    __m256 part[EIGHT], column[EIGHT];
    UNROLL
    for (uint32_t r = 0; r < EIGHT; r++)
        part[r] = _mm256_castsi256_ps(load32(rows->at[r] + at));
    transpose8(part, column);
    UNROLL
    for (uint32_t c = 0; c < EIGHT; c++)
        take_halves(is_one, column[c], step + c, step + c + 8, &sums[0], &sums[1], taker);
}

/* Where the halves of bytes of a block of 32 elements of 4 bits are; 0: it has others. */
INLINE size_t nibbles_at(const enum dtype dtype)
{
    return dtype == DTYPE_Q4_0 ? 2 : dtype == DTYPE_Q4_1 ? 4 : dtype == DTYPE_Q4_ZERO ? 5 : 0;
}

INLINE void take_part(const bool is_one, const enum dtype dtype, const struct eight_rows *rows,
                      uint32_t part, __m256i sums[2], const struct taker *taker)
{
    const struct block_shape shape = dtype_block_shape(dtype);
    const size_t at = shape.elements == PART ? part * (size_t)shape.bytes : 0;
    __m256 bytes[EIGHT];
    UNROLL
    for (uint32_t r = 0; r < EIGHT; r++)
        bytes[r] = _mm256_castsi256_ps(
            block_part(dtype, rows->at[r] + at, shape.elements == PART ? 0 : part));
    take_bytes(is_one, bytes, part * (PART / STEP16), sums, taker);
}

/* Elements from part on: 32, of one group or two; or 64 of Q4_K, of two groups. Their sums, if they meet a token. */
INLINE void take_groups(const bool is_one, const enum dtype dtype, const struct eight_rows *rows,
                        uint32_t part, __m256i sums_out[2], const struct taker *taker)
{
    const size_t bytes = dtype_block_shape(dtype).bytes;
    const uint32_t step = part * (PART / STEP16);
    sums_out[0] = sums_out[1] = _mm256_setzero_si256();
    if (dtype == DTYPE_Q4_K)
        take_thirty_two(is_one, rows, 16 + (size_t)part * PART / 2, step, sums_out, taker);
    else if (nibbles_at(dtype) > 0)
        take_sixteen(is_one, rows, part * bytes + nibbles_at(dtype), step, sums_out, taker);
    else
        take_part(is_one, dtype, rows, part, sums_out, taker);
    if (is_one && block_group(dtype) == PART && dtype != DTYPE_Q4_K)
        sums_out[0] = _mm256_add_epi32(sums_out[0], sums_out[1]);
}

/* The factors, and offsets, of eight groups of blocks of 256 elements, from group `which` on: rows side by side, a stride apart. */
INLINE void take_factors(const enum dtype dtype, const uint32_t which,
                         const struct eight_rows *rows, float *factors_out, float *offsets_out,
                         size_t stride)
{
    __m256 factors[EIGHT], offsets[EIGHT], column[EIGHT];
    UNROLL
    for (uint32_t r = 0; r < EIGHT; r++)
        eight_factors(dtype, which, rows->at[r], &factors[r], &offsets[r]);
    transpose8(factors, column);
    UNROLL
    for (uint32_t c = 0; c < EIGHT; c++)
        _mm256_store_ps(factors_out + (which + c) * stride, column[c]);
    if (!blocks_have_offsets(dtype))
        return;
    transpose8(offsets, column);
    UNROLL
    for (uint32_t c = 0; c < EIGHT; c++)
        _mm256_store_ps(offsets_out + (which + c) * stride, column[c]);
}

INLINE void take_all_factors(const enum dtype dtype, const struct eight_rows *rows,
                             float *factors_out, float *offsets_out, size_t stride)
{
    take_factors(dtype, 0, rows, factors_out, offsets_out, stride);
    if (block_group(dtype) == 16)
        take_factors(dtype, EIGHT, rows, factors_out, offsets_out, stride);
}

INLINE size_t row_bytes_of(const enum dtype dtype, const struct gemm *gemm)
{
    const struct block_shape shape = dtype_block_shape(dtype);
    return gemm->n_in / shape.elements * (size_t)shape.bytes;
}

/* Eight rows from element k on; those behind n_out are like the last one. */
INLINE void find_rows(const enum dtype dtype, const struct gemm *gemm, uint32_t row, uint32_t k,
                      struct eight_rows *rows_out)
{
    const struct block_shape shape = dtype_block_shape(dtype);
    const size_t row_bytes = row_bytes_of(dtype, gemm);
    const uint8_t *first = (const uint8_t *)gemm->w + k / shape.elements * (size_t)shape.bytes;
    const uint32_t last = gemm->n_out - 1;
    UNROLL
    for (uint32_t r = 0; r < EIGHT; r++)
        rows_out->at[r] = first + (row + r < last ? row + r : last) * row_bytes;
}

#endif
