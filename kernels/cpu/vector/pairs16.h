/*
 * pairs16 - sums of products of 16-bit whole numbers, sixteen side by side.
 *
 * Four elements of sixteen rows are a step: their elements 0 and 2 as pairs, [16 rows][2], then 1 and 3. The four numbers
 * that they meet are stored in the same order. pair_dot adds the products of a pair of each row. All sums are exact. With VNNI of
 * 512 bits bytes16.h has the same sums.
 */
#pragma once

#include "kernels/cpu/vector/vec.h"

enum {
    STEP16 = 4,              /* elements of a row in a step */
    STEP16_WIDE = 4 * LANES, /* numbers of a step */
};

#if defined __AVX512F__

/* s += both products of a pair of each row with those at x. */
INLINE __m512i pairs_dot(__m512i s, __m512i pairs, const int16_t *x)
{
    int32_t pair;
    memcpy(&pair, x, sizeof pair);
    return _mm512_add_epi32(s, _mm512_madd_epi16(pairs, _mm512_set1_epi32(pair)));
}

#elif defined __AVX2__

typedef struct {
    __m256i low, high;
} sums16;

INLINE sums16 sums16_begin(int32_t sum)
{
    return (sums16){_mm256_set1_epi32(sum), _mm256_set1_epi32(sum)};
}

INLINE vec sums16_to_vec(sums16 s)
{
    return (vec){_mm256_cvtepi32_ps(s.low), _mm256_cvtepi32_ps(s.high)};
}

INLINE __m256i eight_dot(__m256i s, const int16_t *w, __m256i pair)
{
    const __m256i pairs = _mm256_loadu_si256((const __m256i *)(const void *)w);
#ifdef __AVXVNNI__
    return _mm256_dpwssd_avx_epi32(s, pairs, pair);
#else
    return _mm256_add_epi32(s, _mm256_madd_epi16(pairs, pair));
#endif
}

INLINE sums16 pair_dot(sums16 s, const int16_t *w, const int16_t *x)
{
    int32_t two;
    memcpy(&two, x, sizeof two);
    const __m256i pair = _mm256_set1_epi32(two);
    return (sums16){eight_dot(s.low, w, pair), eight_dot(s.high, w + LANES, pair)};
}

#else

typedef struct {
    int32_t lane[LANES];
} sums16;

INLINE sums16 sums16_begin(int32_t sum)
{
    sums16 s;
    for (uint32_t i = 0; i < LANES; i++)
        s.lane[i] = sum;
    return s;
}

INLINE vec sums16_to_vec(sums16 s)
{
    float lanes[LANES];
    for (uint32_t i = 0; i < LANES; i++)
        lanes[i] = (float)s.lane[i];
    return vec_load(lanes);
}

static inline sums16 pair_dot(sums16 s, const int16_t *w, const int16_t *x)
{
    for (uint32_t i = 0; i < LANES; i++)
        s.lane[i] += w[2 * i] * x[0] + w[2 * i + 1] * x[1];
    return s;
}

#endif

/* Stores sixteen whole numbers of 16 bits, each four as 0, 2, 1, 3. */
INLINE void step16_store(int16_t *numbers_out, vec v)
{
#if defined __AVX2__
    const __m128i order = _mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15);
#if defined __AVX512F__
    const __m256i words = _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(v));
#else
    __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32(v.low), _mm256_cvtps_epi32(v.high));
    words = _mm256_permute4x64_epi64(words, 0xd8); /* the quarters of both registers alternate */
#endif
    _mm256_storeu_si256((__m256i *)(void *)numbers_out,
                        _mm256_shuffle_epi8(words, _mm256_broadcastsi128_si256(order)));
#else
    static const uint8_t ORDER[STEP16] = {0, 2, 1, 3};
    float lanes[LANES];
    vec_store(lanes, v);
    for (uint32_t i = 0; i < LANES; i++)
        numbers_out[i] = (int16_t)lanes[i / STEP16 * STEP16 + ORDER[i % STEP16]];
#endif
}
