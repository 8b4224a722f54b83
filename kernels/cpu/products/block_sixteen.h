/*
 * block_sixteen - blocks of sixteen rows taken apart with AVX-512 VNNI: 32 elements become eight steps (vector/bytes16.h), which are
 * stored, or meet the numbers of a token at once. Factors lie side by side as their rows do.
 */
#pragma once

#include "kernels/cpu/products/block_chunk.h"
#include "kernels/cpu/products/block_parts.h"
#include "kernels/cpu/products/gemm_path.h"
#include "kernels/cpu/vector/bytes16.h"

#ifdef HAS_BYTES16

enum { STEPS = PART / BYTES16_STEP };

/* Sixteen rows, from one element on. */
struct sixteen_rows {
    const uint8_t *at[LANES];
};

/* Where steps go: to bytes, as a panel has them; or they meet the numbers of a token, at the group of the first one. */
struct step_taker {
    uint8_t *bytes;
    const uint8_t *x;
};

/* Sums with the high bytes and with the low ones. */
struct two_sums {
    __m512i high, low;
};

INLINE __m512i joined(struct two_sums sums)
{
    return _mm512_add_epi32(bytes16_move_up(sums.high), sums.low);
}

/* step: its number from the taker's first element on. */
INLINE void give_step(const bool is_one, const struct step_taker *taker, uint32_t step, __m512i w,
                      struct two_sums *sums)
{
    if (is_one) {
        const uint8_t *x = taker->x + step / STEPS * BYTES16_PART_BYTES +
                           step % STEPS * BYTES16_STEP;
        sums->high = bytes16_dot(sums->high, w, x);
        sums->low = bytes16_dot(sums->low, w, x + BYTES16_PART);
    } else {
        _mm512_store_si512(taker->bytes + (size_t)step * BYTES16_STEP_BYTES, w);
    }
}

INLINE __m128i load16(const uint8_t *bytes)
{
    return _mm_loadu_si128((const __m128i *)(const void *)bytes);
}

/* Sixteen bytes of each row at `at`. */
INLINE void load_sixteen(const struct sixteen_rows *rows, size_t at, __m512i four_out[4])
{
    UNROLL
    for (uint32_t r = 0; r < 4; r++) {
        __m512i z = _mm512_castsi128_si512(load16(rows->at[r] + at));
        z = _mm512_inserti32x4(z, load16(rows->at[r + 4] + at), 1);
        z = _mm512_inserti32x4(z, load16(rows->at[r + 8] + at), 2);
        four_out[r] = _mm512_inserti32x4(z, load16(rows->at[r + 12] + at), 3);
    }
}

/* A step of bytes that have two elements each: the low halves are a step, the high ones another. */
INLINE void give_halves(const bool is_one, const struct step_taker *taker, uint32_t low_step,
                        uint32_t high_step, __m512i bytes, struct two_sums *low,
                        struct two_sums *high)
{
    const __m512i four = _mm512_set1_epi8(0xf);
    give_step(is_one, taker, low_step, _mm512_and_si512(bytes, four), low);
    give_step(is_one, taker, high_step, _mm512_and_si512(_mm512_srli_epi16(bytes, 4), four), high);
}

/* 32 elements that block_part makes of a row. */
INLINE void take_parts(const bool is_one, const enum dtype dtype, const struct sixteen_rows *rows,
                       size_t at, uint32_t part, uint32_t step, struct two_sums sums[2],
                       const struct step_taker *taker)
{
    __m512i low[4], high[4], steps[STEPS];
    UNROLL
    for (uint32_t r = 0; r < 4; r++) {
        const __m512i a = _mm512_inserti64x4(
            _mm512_castsi256_si512(block_part(dtype, rows->at[r] + at, part)),
            block_part(dtype, rows->at[r + 4] + at, part), 1);
        const __m512i b = _mm512_inserti64x4(
            _mm512_castsi256_si512(block_part(dtype, rows->at[r + 8] + at, part)),
            block_part(dtype, rows->at[r + 12] + at, part), 1);
        low[r] = _mm512_shuffle_i64x2(a, b, 0x88);
        high[r] = _mm512_shuffle_i64x2(a, b, 0xdd);
    }
    bytes16_steps(low, steps);
    bytes16_steps(high, steps + 4);
    UNROLL
    for (uint32_t s = 0; s < STEPS; s++)
        give_step(is_one, taker, step + s, steps[s], &sums[s / 4]);
}

/* 32 elements in sixteen bytes of each row. */
INLINE void take_nibbles(const bool is_one, const struct sixteen_rows *rows, size_t at,
                         uint32_t step, struct two_sums sums[2], const struct step_taker *taker)
{
    __m512i four[4], bytes[4];
    load_sixteen(rows, at, four);
    bytes16_steps(four, bytes);
    UNROLL
    for (uint32_t c = 0; c < 4; c++)
        give_halves(is_one, taker, step + c, step + c + 4, bytes[c], &sums[0], &sums[1]);
}

/* 64 elements in 32 bytes of each row: two groups. */
INLINE void take_two_groups(const bool is_one, const struct sixteen_rows *rows, size_t at,
                            uint32_t step, struct two_sums sums[2], const struct step_taker *taker)
{
    UNROLL
    for (uint32_t half = 0; half < 2; half++) {
        __m512i four[4], bytes[4];
        load_sixteen(rows, at + 16 * half, four);
        bytes16_steps(four, bytes);
        UNROLL
        for (uint32_t c = 0; c < 4; c++)
            give_halves(is_one, taker, step + 4 * half + c, step + 4 * half + c + 8, bytes[c],
                        &sums[0], &sums[1]);
    }
}

/* Where the halves of bytes of a block of 32 elements of 4 bits are; 0: it has others. */
INLINE size_t nibbles_at(const enum dtype dtype)
{
    return dtype == DTYPE_Q4_0 ? 2 : dtype == DTYPE_Q4_1 ? 4 : dtype == DTYPE_Q4_ZERO ? 5 : 0;
}

/* Elements from part on: 32, of one group or two; or 64 of Q4_K, of two groups. Their sums, if they meet a token. */
INLINE void take_steps(const bool is_one, const enum dtype dtype, const struct sixteen_rows *rows,
                       uint32_t part, __m512i sums_out[2], const struct step_taker *taker)
{
    const struct block_shape shape = dtype_block_shape(dtype);
    const bool is_short = shape.elements == PART;
    const size_t at = is_short ? part * (size_t)shape.bytes : 0;
    const struct two_sums zero = {_mm512_setzero_si512(), _mm512_setzero_si512()};
    struct two_sums sums[2] = {zero, zero};
    if (dtype == DTYPE_Q4_K)
        take_two_groups(is_one, rows, 16 + (size_t)part * PART / 2, part * STEPS, sums, taker);
    else if (nibbles_at(dtype) > 0)
        take_nibbles(is_one, rows, at + nibbles_at(dtype), part * STEPS, sums, taker);
    else
        take_parts(is_one, dtype, rows, at, is_short ? 0 : part, part * STEPS, sums, taker);
    if (!is_one)
        return;
    if (block_group(dtype) == PART && dtype != DTYPE_Q4_K) {
        sums[0].high = _mm512_add_epi32(sums[0].high, sums[1].high);
        sums[0].low = _mm512_add_epi32(sums[0].low, sums[1].low);
    } else {
        sums_out[1] = joined(sums[1]);
    }
    sums_out[0] = joined(sums[0]);
}

/* ---- factors ---- */

/* Four bytes of each row at `at`. */
INLINE __m512i words_at(const struct sixteen_rows *rows, size_t at)
{
    __m128i four[4];
    UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        const uint8_t *const *of = rows->at + 4 * i;
        four[i] = _mm_cvtsi32_si128((int)load_word(of[0] + at, 4));
        four[i] = _mm_insert_epi32(four[i], (int)load_word(of[1] + at, 4), 1);
        four[i] = _mm_insert_epi32(four[i], (int)load_word(of[2] + at, 4), 2);
        four[i] = _mm_insert_epi32(four[i], (int)load_word(of[3] + at, 4), 3);
    }
    const __m256i low = _mm256_set_m128i(four[1], four[0]),
                  high = _mm256_set_m128i(four[3], four[2]);
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

/* The F16 in the low halves of words. */
INLINE __m512 low_halves(__m512i words)
{
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(words));
}

INLINE __m512 high_halves(__m512i words)
{
    return low_halves(_mm512_srli_epi32(words, 16));
}

INLINE __m512 negated16(__m512 v)
{
    return _mm512_castsi512_ps(
        _mm512_xor_si512(_mm512_castps_si512(v), _mm512_set1_epi32((int)0x80000000u)));
}

/* 2^(e - 128), the half of E8M0, of the low bytes of words. */
INLINE __m512 exponents_of(__m512i words)
{
    const __m512i exponents = _mm512_and_si512(words, _mm512_set1_epi32(0xff));
    const __m512i bits = _mm512_mask_mov_epi32(_mm512_slli_epi32(exponents, 23),
                                               _mm512_testn_epi32_mask(exponents, exponents),
                                               _mm512_set1_epi32(1 << 22));
    return _mm512_mul_ps(_mm512_castsi512_ps(bits), _mm512_set1_ps(0.5f));
}

/* The factors of blocks of 32 elements, and the offsets if the type has them. */
INLINE void short_factors(const enum dtype dtype, const struct sixteen_rows *rows, size_t at,
                          __m512 *factors_out, __m512 *offsets_out)
{
    const __m512i words = words_at(rows, at);
    *offsets_out = _mm512_setzero_ps();
    switch (dtype) {
    case DTYPE_Q4_1:
    case DTYPE_Q5_1:
        *factors_out = low_halves(words);
        *offsets_out = high_halves(words);
        break;
    case DTYPE_MXFP4:
        *factors_out = exponents_of(words);
        break;
    case DTYPE_Q4_ZERO: {
        const __m512i zeros = _mm512_and_si512(words_at(rows, at + 4), _mm512_set1_epi32(0xff));
        *factors_out = _mm512_castsi512_ps(words);
        *offsets_out = negated16(_mm512_mul_ps(*factors_out, _mm512_cvtepi32_ps(zeros)));
        break;
    }
    case DTYPE_Q8_FLOAT:
        *factors_out = _mm512_castsi512_ps(words);
        break;
    default:
        *factors_out = low_halves(words);
        break;
    }
}

/* Byte `at` of each word, as a number. */
INLINE __m512 byte_of(__m512i words, const uint32_t at, const bool is_signed)
{
    if (is_signed)
        return _mm512_cvtepi32_ps(_mm512_srai_epi32(_mm512_slli_epi32(words, 24 - 8 * at), 24));
    return _mm512_cvtepi32_ps(
        _mm512_and_si512(_mm512_srli_epi32(words, 8 * at), _mm512_set1_epi32(0xff)));
}

INLINE void store_factor(const uint32_t group, __m512 factor, float *out)
{
    _mm512_store_ps(out + (size_t)group * LANES, factor);
}

/* Q4_K and Q5_K: d, the factor of minima, and eight scales and minima of 6 bits each, in sixteen bytes. */
INLINE void six_bits_of_rows(const struct sixteen_rows *rows, float *factors_out,
                             float *offsets_out)
{
    const __m512i six = _mm512_set1_epi32(0x3f3f3f3f), four = _mm512_set1_epi32(0x0f0f0f0f),
                  two = _mm512_set1_epi32(0x30303030);
    __m512i head[4], word[4];
    load_sixteen(rows, 0, head);
    bytes16_steps(head, word);
    const __m512 d = low_halves(word[0]), m = high_halves(word[0]);
    const __m512i top = _mm512_and_si512(_mm512_srli_epi32(word[1], 2), two),
                  top_m = _mm512_and_si512(_mm512_srli_epi32(word[2], 2), two);
    const __m512i scales[2] = {_mm512_and_si512(word[1], six),
                               _mm512_or_si512(_mm512_and_si512(word[3], four), top)};
    const __m512i minima[2] = {
        _mm512_and_si512(word[2], six),
        _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi32(word[3], 4), four), top_m)};
    UNROLL
    for (uint32_t g = 0; g < 8; g++) {
        store_factor(g, _mm512_mul_ps(byte_of(scales[g / 4], g % 4, false), d), factors_out);
        store_factor(g, negated16(_mm512_mul_ps(byte_of(minima[g / 4], g % 4, false), m)),
                     offsets_out);
    }
}

/* Sixteen scales and minima of 4 bits. */
INLINE void four_bits_of_rows(const struct sixteen_rows *rows, float *factors_out,
                              float *offsets_out)
{
    const __m512i four = _mm512_set1_epi32(0x0f0f0f0f), both = words_at(rows, 80);
    const __m512 d = low_halves(both), m = high_halves(both);
    __m512i head[4], word[4];
    load_sixteen(rows, 0, head);
    bytes16_steps(head, word);
    UNROLL
    for (uint32_t g = 0; g < 16; g++) {
        const __m512i scale = _mm512_and_si512(word[g / 4], four),
                      minimum = _mm512_and_si512(_mm512_srli_epi32(word[g / 4], 4), four);
        store_factor(g, _mm512_mul_ps(byte_of(scale, g % 4, false), d), factors_out);
        store_factor(g, negated16(_mm512_mul_ps(byte_of(minimum, g % 4, false), m)), offsets_out);
    }
}

/* Q3_K: sixteen scales of 6 bits less 32: 4 bits, and two more behind them. */
INLINE void q3_k_of_rows(const struct sixteen_rows *rows, float *factors_out)
{
    const __m512i four = _mm512_set1_epi32(0x0f0f0f0f), two = _mm512_set1_epi32(0x03030303);
    __m512i head[4], word[4];
    load_sixteen(rows, 94, head); /* the last sixteen bytes: two of elements, twelve of scales, d */
    UNROLL
    for (uint32_t r = 0; r < 4; r++)
        head[r] = _mm512_bsrli_epi128(head[r], 2);
    bytes16_steps(head, word);
    const __m512 d = low_halves(word[3]);
    UNROLL
    for (uint32_t q = 0; q < 4; q++) {
        const __m512i low = _mm512_and_si512(_mm512_srli_epi32(word[q % 2], q / 2 * 4), four);
        const __m512i high = _mm512_and_si512(_mm512_srli_epi32(word[2], 2 * q), two);
        const __m512i scale = _mm512_sub_epi8(_mm512_or_si512(low, _mm512_slli_epi32(high, 4)),
                                              _mm512_set1_epi8(32));
        UNROLL
        for (uint32_t g = 0; g < 4; g++)
            store_factor(4 * q + g, _mm512_mul_ps(byte_of(scale, g, true), d), factors_out);
    }
}

/* Q6_K: sixteen scales of 8 bits, and d at the end. */
INLINE void q6_k_of_rows(const struct sixteen_rows *rows, float *factors_out)
{
    const __m512 d = high_halves(words_at(rows, 206));
    __m512i head[4], word[4];
    load_sixteen(rows, 192, head);
    bytes16_steps(head, word);
    UNROLL
    for (uint32_t g = 0; g < 16; g++)
        store_factor(g, _mm512_mul_ps(byte_of(word[g / 4], g % 4, true), d), factors_out);
}

/* The factors, and offsets, of all groups of a block of 256 elements: rows side by side. */
INLINE void long_factors(const enum dtype dtype, const struct sixteen_rows *rows,
                         float *factors_out, float *offsets_out)
{
    switch (dtype) {
    case DTYPE_Q2_K:
        four_bits_of_rows(rows, factors_out, offsets_out);
        break;
    case DTYPE_Q3_K:
        q3_k_of_rows(rows, factors_out);
        break;
    case DTYPE_Q6_K:
        q6_k_of_rows(rows, factors_out);
        break;
    default:
        six_bits_of_rows(rows, factors_out, offsets_out);
        break;
    }
}

/* ---- where they are ---- */

/* Sixteen rows from element k on; those behind n_out are like the last one. */
INLINE void find_sixteen(const enum dtype dtype, const struct gemm *gemm, uint32_t row, uint32_t k,
                         struct sixteen_rows *rows_out)
{
    const struct block_shape shape = dtype_block_shape(dtype);
    const size_t row_bytes = gemm->n_in / shape.elements * (size_t)shape.bytes;
    const uint8_t *first = (const uint8_t *)gemm->w + k / shape.elements * (size_t)shape.bytes;
    const uint32_t last = gemm->n_out - 1;
    UNROLL
    for (uint32_t r = 0; r < LANES; r++)
        rows_out->at[r] = first + (row + r < last ? row + r : last) * row_bytes;
}

#endif
