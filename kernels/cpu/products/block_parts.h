/*
 * block_parts - blocks of GGML (kernels/blocks.h) taken apart with AVX2: 32 whole numbers at a time, and the factors and offsets
 * of 256 elements.
 */
#pragma once

#include "kernels/blocks.h"
#include "kernels/cpu/vector/vec.h"

#ifdef __AVX2__

/* Asks for n bytes that a thread reads later. */
INLINE void ask_for(const uint8_t *bytes, const size_t n)
{
    UNROLL
    for (size_t i = 0; i < n; i += 64)
        vec_prefetch((const char *)bytes + i);
}

INLINE __m256i load32(const uint8_t *bytes)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)bytes);
}

INLINE uint64_t load_word(const uint8_t *bytes, uint32_t n)
{
    uint64_t word = 0;
    memcpy(&word, bytes, n);
    return word;
}

/* Bits from `bit` on of 32 bytes. */
INLINE __m256i bits_at(const uint8_t *bytes, uint32_t bit, uint8_t mask)
{
    const __m256i moved = _mm256_srl_epi16(load32(bytes), _mm_cvtsi32_si128((int)bit));
    return _mm256_and_si256(moved, _mm256_set1_epi8((char)mask));
}

/* The low halves of 16 bytes, then the high ones. */
INLINE __m256i halves_of(const uint8_t *bytes)
{
    const __m128i low = _mm_loadu_si128((const __m128i *)(const void *)bytes);
    const __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(low),
                                                 _mm_srli_epi16(low, 4), 1);
    return _mm256_and_si256(both, _mm256_set1_epi8(0xf));
}

/* 16 in each byte whose bit of a little-endian word is set. */
INLINE __m256i fifth_bits(const uint8_t *bytes)
{
    const __m256i place = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202,
                                             0x0303030303030303);
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201u);
    const __m256i word = _mm256_set1_epi32((int)(uint32_t)load_word(bytes, 4));
    const __m256i own = _mm256_and_si256(_mm256_shuffle_epi8(word, place), bit);
    return _mm256_and_si256(_mm256_cmpeq_epi8(own, bit), _mm256_set1_epi8(16));
}

INLINE __m256i six_bits(const uint8_t *block, uint32_t part)
{
    const uint32_t half = part / 4, at = part % 4;
    const __m256i low = bits_at(block + 64 * half + at % 2 * 32, at / 2 * 4, 0xf);
    const __m256i two = bits_at(block + 128 + 32 * half, 2 * at, 3);
    return _mm256_or_si256(low, _mm256_slli_epi16(two, 4));
}

/* Elements 32 part .. 32 part + 31 of a block, plus block_bias: 0 or more. Types that are halves of bytes alone are taken in their
 * bytes instead: take_halves. */
INLINE __m256i block_part(const enum dtype dtype, const uint8_t *block, uint32_t part)
{
    const __m256i e2m1 = _mm256_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0,
                                          12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4,
                                          0);
    switch (dtype) {
    case DTYPE_Q5_0:
        return _mm256_or_si256(halves_of(block + 6), fifth_bits(block + 2));
    case DTYPE_Q5_1:
        return _mm256_or_si256(halves_of(block + 8), fifth_bits(block + 4));
    case DTYPE_Q2_K:
        return bits_at(block + 16 + part / 4 * 32, part % 4 * 2, 3);
    case DTYPE_Q3_K: {
        const __m256i low = bits_at(block + 32 + part / 4 * 32, part % 4 * 2, 3);
        const __m256i high = _mm256_slli_epi16(bits_at(block, part, 1), 2);
        return _mm256_or_si256(low, high);
    }
    case DTYPE_Q5_K:
        return _mm256_or_si256(bits_at(block + 48 + part / 2 * 32, part % 2 * 4, 0xf),
                               _mm256_slli_epi16(bits_at(block + 16, part, 1), 4));
    case DTYPE_Q6_K:
        return six_bits(block, part);
    case DTYPE_MXFP4:
        return _mm256_shuffle_epi8(e2m1, halves_of(block + 1));
    case DTYPE_Q8_FLOAT:
        return _mm256_xor_si256(load32(block + 4), _mm256_set1_epi8((char)128));
    default:
        return _mm256_xor_si256(load32(block + 2), _mm256_set1_epi8((char)128));
    }
}

/* Eight whole numbers of 8 bits times a factor. */
INLINE __m256 eight_times(uint64_t bytes, bool is_signed, float factor)
{
    const __m128i eight = _mm_cvtsi64_si128((long long)bytes);
    const __m256i wide = is_signed ? _mm256_cvtepi8_epi32(eight) : _mm256_cvtepu8_epi32(eight);
    return _mm256_mul_ps(_mm256_cvtepi32_ps(wide), _mm256_set1_ps(factor));
}

INLINE float half_of(const uint8_t *bytes)
{
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128((int)load_word(bytes, 2))));
}

INLINE __m256 negated(__m256 v)
{
    return _mm256_xor_ps(v, _mm256_set1_ps(-0.0f));
}

/* ---- factors of a block of 32 elements of each of eight rows ---- */

enum { EIGHT = 8 };

/* The F16 numbers at `at`. */
INLINE __m256 halves_at(const uint8_t *const row[EIGHT], size_t at)
{
    __m128i halves = _mm_cvtsi32_si128((int)load_word(row[0] + at, 2));
    halves = _mm_insert_epi16(halves, (int)load_word(row[1] + at, 2), 1);
    halves = _mm_insert_epi16(halves, (int)load_word(row[2] + at, 2), 2);
    halves = _mm_insert_epi16(halves, (int)load_word(row[3] + at, 2), 3);
    halves = _mm_insert_epi16(halves, (int)load_word(row[4] + at, 2), 4);
    halves = _mm_insert_epi16(halves, (int)load_word(row[5] + at, 2), 5);
    halves = _mm_insert_epi16(halves, (int)load_word(row[6] + at, 2), 6);
    halves = _mm_insert_epi16(halves, (int)load_word(row[7] + at, 2), 7);
    return _mm256_cvtph_ps(halves);
}

/* The bytes at `at`, widened. */
INLINE __m256i bytes_at(const uint8_t *const row[EIGHT], size_t at)
{
    uint64_t word = 0;
    UNROLL
    for (uint32_t r = 0; r < EIGHT; r++)
        word |= (uint64_t)row[r][at] << 8 * r;
    return _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)word));
}

/* The F32 numbers at `at`. */
INLINE __m256 floats_at(const uint8_t *const row[EIGHT], size_t at)
{
    __m128i four[2];
    UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        const uint8_t *const *of = row + 4 * i;
        four[i] = _mm_cvtsi32_si128((int)load_word(of[0] + at, 4));
        four[i] = _mm_insert_epi32(four[i], (int)load_word(of[1] + at, 4), 1);
        four[i] = _mm_insert_epi32(four[i], (int)load_word(of[2] + at, 4), 2);
        four[i] = _mm_insert_epi32(four[i], (int)load_word(of[3] + at, 4), 3);
    }
    return _mm256_castsi256_ps(_mm256_set_m128i(four[1], four[0]));
}

/* 2^(e - 128), the half of E8M0. */
INLINE __m256 exponents_at(const uint8_t *const row[EIGHT], size_t at)
{
    const __m256i exponents = bytes_at(row, at);
    const __m256i least = _mm256_cmpeq_epi32(exponents, _mm256_setzero_si256());
    const __m256i bits = _mm256_or_si256(_mm256_slli_epi32(exponents, 23),
                                         _mm256_and_si256(least, _mm256_set1_epi32(1 << 22)));
    return _mm256_mul_ps(_mm256_castsi256_ps(bits), _mm256_set1_ps(0.5f));
}

/* The factors, and the offsets if the type has them. */
INLINE void part_factors(const enum dtype dtype, const uint8_t *const row[EIGHT], size_t at,
                         __m256 *factors_out, __m256 *offsets_out)
{
    switch (dtype) {
    case DTYPE_Q4_1:
    case DTYPE_Q5_1:
        *factors_out = halves_at(row, at);
        *offsets_out = halves_at(row, at + 2);
        break;
    case DTYPE_MXFP4:
        *factors_out = exponents_at(row, at);
        break;
    case DTYPE_Q4_ZERO:
        *factors_out = floats_at(row, at);
        *offsets_out = negated(
            _mm256_mul_ps(*factors_out, _mm256_cvtepi32_ps(bytes_at(row, at + 4))));
        break;
    case DTYPE_Q8_FLOAT:
        *factors_out = floats_at(row, at);
        break;
    default:
        *factors_out = halves_at(row, at);
        break;
    }
}

/* ---- factors of a block of 256 elements of one row ---- */

/* Eight scales and eight minima of 6 bits each in 12 bytes. */
INLINE void six_bit_factors(const uint8_t *block, __m256 *factors_out, __m256 *offsets_out)
{
    const uint64_t six = 0x3f3f3f3f, four = 0x0f0f0f0f, two = 0x30303030;
    const uint64_t a = load_word(block + 4, 4), b = load_word(block + 8, 4),
                   c = load_word(block + 12, 4);
    const uint64_t scales = (a & six) | ((c & four) | (a >> 2 & two)) << 32;
    const uint64_t minima = (b & six) | ((c >> 4 & four) | (b >> 2 & two)) << 32;
    *factors_out = eight_times(scales, false, half_of(block));
    *offsets_out = negated(eight_times(minima, false, half_of(block + 2)));
}

/* Scales and minima of 4 bits. */
INLINE void four_bit_factors(const uint8_t *block, uint32_t which, __m256 *factors_out,
                             __m256 *offsets_out)
{
    const uint64_t four = 0x0f0f0f0f0f0f0f0f, bytes = load_word(block + which, 8);
    *factors_out = eight_times(bytes & four, false, half_of(block + 80));
    *offsets_out = negated(eight_times(bytes >> 4 & four, false, half_of(block + 82)));
}

/* Scales of Q3_K: 4 bits, and two more behind them, less 32. */
INLINE __m256 q3_k_factors(const uint8_t *block, uint32_t which)
{
    const uint64_t four = 0x0f0f0f0f0f0f0f0f, two = 0x03030303;
    const uint64_t low = load_word(block + 96, 8), high = load_word(block + 104, 4);
    const uint64_t first = high >> which / 2 & two, second = high >> (which / 2 + 2) & two;
    const uint64_t scales = (low >> which / 2 & four) | (first | second << 32) << 4;
    const __m128i less = _mm_sub_epi8(_mm_cvtsi64_si128((long long)scales), _mm_set1_epi8(32));
    return eight_times((uint64_t)_mm_cvtsi128_si64(less), true, half_of(block + 108));
}

/* The factors of eight groups from group `which` on, and their offsets if the type has them. */
INLINE void eight_factors(const enum dtype dtype, const uint32_t which, const uint8_t *block,
                          __m256 *factors_out, __m256 *offsets_out)
{
    switch (dtype) {
    case DTYPE_Q2_K:
        four_bit_factors(block, which, factors_out, offsets_out);
        break;
    case DTYPE_Q3_K:
        *factors_out = q3_k_factors(block, which);
        break;
    case DTYPE_Q6_K:
        *factors_out = eight_times(load_word(block + 192 + which, 8), true, half_of(block + 208));
        break;
    default:
        six_bit_factors(block, factors_out, offsets_out);
        break;
    }
}

#endif
