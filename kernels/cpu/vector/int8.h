/*
 * int8 - adds four INT8 products to each of sixteen int32 sums: one step of an INT8 product.
 *
 * vec_int_dot adds w[4 i + j] * x[j] for j = 0 .. 3 to lane i. Weights are stored plus 128, because the dot product
 * instructions of x86 need one unsigned factor: vec_int_begin takes what is to be added for it, -128 times the sum of x. NEON
 * subtracts the 128 when it loads weights, and begins with 0. All numbers are whole, so every
 * instruction set gives the same.
 *
 * A count is a rounded activation, as the set keeps it. AVX2 without dot products (HAS_PAIRS) multiplies pairs in 16
 * bits: the even bytes of a register of weights, and the odd ones. So four counts are stored as 0, 2, 1, 3.
 */
#pragma once

#include "kernels/cpu/vector/vec.h"

#if defined __AVX2__ && !defined __AVX512F__ && !defined __AVXVNNI__
#define HAS_PAIRS
typedef int16_t count;

/* Stores sixteen whole numbers from -128 to 127 as pairs. */
INLINE void counts_store(count *counts, vec v)
{
    const __m256i to_pairs = _mm256_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15,
                                              0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15);
    __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32(v.low), _mm256_cvtps_epi32(v.high));
    words = _mm256_permute4x64_epi64(words, 0xd8); /* the quarters of both registers alternate */
    _mm256_storeu_si256((__m256i *)(void *)counts, _mm256_shuffle_epi8(words, to_pairs));
}
#else
typedef int8_t count;

/* Stores sixteen whole numbers from -128 to 127. */
INLINE void counts_store(count *counts, vec v)
{
    vec_store_int8(counts, v);
}
#endif

#if (defined __AVX2__ && !defined HAS_PAIRS) || defined SET_NEON
/* The factors of four products as one number. */
INLINE int32_t factors_four(const int8_t *x)
{
    int32_t four;
    memcpy(&four, x, sizeof four);
    return four;
}
#endif

/* Asks for weights that come 2 KiB later. Without dot products, a core's own prefetcher does it too late for what a few tokens
 * multiply. */
INLINE void weights_ask(const uint8_t *w)
{
#ifdef HAS_PAIRS
    _mm_prefetch((const char *)w + 2048, _MM_HINT_T0);
#else
    (void)w;
#endif
}

#if defined(__AVX512F__)

/* Not __m512i, whose lanes have 64 bits: GCC would keep a sum in a register as each of the two types, and spill. */
typedef int32_t vec_int __attribute__((vector_size(64)));
typedef __m512i weights64;
typedef __m512i factors;

INLINE vec_int vec_int_begin(int32_t correction)
{
    return (vec_int)_mm512_set1_epi32(correction);
}

INLINE vec vec_int_to_vec(vec_int s)
{
    return _mm512_cvtepi32_ps((__m512i)s);
}

INLINE weights64 weights_load(const uint8_t *w)
{
    return _mm512_loadu_si512(w);
}

INLINE factors factors_load(const int8_t *x)
{
    return _mm512_set1_epi32(factors_four(x));
}

INLINE vec_int vec_int_dot(vec_int s, weights64 w, factors x)
{
#ifdef __AVX512VNNI__
    return (vec_int)_mm512_dpbusd_epi32((__m512i)s, w, x);
#else
    /* Even and odd bytes as int16: nothing saturates. */
    __m512i low = _mm512_madd_epi16(_mm512_and_si512(w, _mm512_set1_epi16(0xff)),
                                    _mm512_srai_epi16(_mm512_slli_epi16(x, 8), 8));
    __m512i high = _mm512_madd_epi16(_mm512_srli_epi16(w, 8), _mm512_srai_epi16(x, 8));
    return (vec_int)_mm512_add_epi32((__m512i)s, _mm512_add_epi32(low, high));
#endif
}

#elif defined(__AVX2__)

typedef struct {
    __m256i low, high;
} vec_int;

INLINE vec_int vec_int_begin(int32_t correction)
{
    return (vec_int){_mm256_set1_epi32(correction), _mm256_set1_epi32(correction)};
}

INLINE vec vec_int_to_vec(vec_int s)
{
    return (vec){_mm256_cvtepi32_ps(s.low), _mm256_cvtepi32_ps(s.high)};
}

#ifdef HAS_PAIRS

typedef struct {
    vec_int even, odd; /* bytes 0 and 2, 1 and 3 of each row's four */
} weights64;
typedef struct {
    __m256i even, odd;
} factors;

INLINE __m256i bytes_even(__m256i w)
{
    return _mm256_and_si256(w, _mm256_set1_epi16(0xff));
}

INLINE weights64 weights_load(const uint8_t *w)
{
    __m256i low = _mm256_loadu_si256((const __m256i *)(const void *)w);
    __m256i high = _mm256_loadu_si256((const __m256i *)(const void *)(w + 32));
    return (weights64){.even = {bytes_even(low), bytes_even(high)},
                       .odd = {_mm256_srli_epi16(low, 8), _mm256_srli_epi16(high, 8)}};
}

INLINE __m256i counts_pair(const count *x)
{
    int32_t pair;
    memcpy(&pair, x, sizeof pair);
    return _mm256_set1_epi32(pair);
}

INLINE factors factors_load(const count *x)
{
    return (factors){counts_pair(x), counts_pair(x + 2)};
}

INLINE __m256i half_dot(__m256i s, __m256i even, __m256i odd, factors x)
{
    return _mm256_add_epi32(
        s, _mm256_add_epi32(_mm256_madd_epi16(even, x.even), _mm256_madd_epi16(odd, x.odd)));
}

INLINE vec_int vec_int_dot(vec_int s, weights64 w, factors x)
{
    return (vec_int){half_dot(s.low, w.even.low, w.odd.low, x),
                     half_dot(s.high, w.even.high, w.odd.high, x)};
}

#else

typedef vec_int weights64;
typedef __m256i factors;

INLINE weights64 weights_load(const uint8_t *w)
{
    return (weights64){_mm256_loadu_si256((const __m256i *)(const void *)w),
                       _mm256_loadu_si256((const __m256i *)(const void *)(w + 32))};
}

INLINE factors factors_load(const count *x)
{
    return _mm256_set1_epi32(factors_four(x));
}

INLINE vec_int vec_int_dot(vec_int s, weights64 w, factors x)
{
    return (vec_int){_mm256_dpbusd_avx_epi32(s.low, w.low, x),
                     _mm256_dpbusd_avx_epi32(s.high, w.high, x)};
}

#endif

#elif defined SET_NEON

typedef struct {
    int32x4_t quarter[VEC_QUARTERS];
} vec_int;
typedef struct {
    int8x16_t quarter[VEC_QUARTERS];
} weights64;
typedef int8x16_t factors;

/* The weights come without their 128, so there is nothing to correct. */
INLINE vec_int vec_int_begin(int32_t correction)
{
    const int32x4_t zero = vdupq_n_s32(0);
    (void)correction;
    return (vec_int){{zero, zero, zero, zero}};
}

INLINE vec vec_int_to_vec(vec_int s)
{
    vec v;
    EACH_QUARTER v.quarter[i] = vcvtq_f32_s32(s.quarter[i]);
    return v;
}

INLINE weights64 weights_load(const uint8_t *w)
{
    const uint8x16_t sign = vdupq_n_u8(0x80);
    weights64 weights;
    EACH_QUARTER weights.quarter[i] = vreinterpretq_s8_u8(
        veorq_u8(vld1q_u8(w + (size_t)16 * i), sign));
    return weights;
}

INLINE factors factors_load(const count *x)
{
    return vreinterpretq_s8_s32(vdupq_n_s32(factors_four(x)));
}

INLINE int32x4_t quarter_dot(int32x4_t s, int8x16_t w, factors x)
{
#ifdef __ARM_FEATURE_DOTPROD
    return vdotq_s32(s, w, x);
#else
    /* A product fits 16 bits, two do not. */
    const int32x4_t low = vpaddlq_s16(vmull_s8(vget_low_s8(w), vget_low_s8(x)));
    const int32x4_t high = vpaddlq_s16(vmull_high_s8(w, x));
    return vaddq_s32(s, vpaddq_s32(low, high));
#endif
}

INLINE vec_int vec_int_dot(vec_int s, weights64 w, factors x)
{
    EACH_QUARTER s.quarter[i] = quarter_dot(s.quarter[i], w.quarter[i], x);
    return s;
}

#else

typedef struct {
    int32_t lanes[LANES];
} vec_int;
typedef const uint8_t *weights64;
typedef const int8_t *factors;

INLINE vec_int vec_int_begin(int32_t correction)
{
    vec_int s;
    for (uint32_t i = 0; i < LANES; i++)
        s.lanes[i] = correction;
    return s;
}

INLINE vec vec_int_to_vec(vec_int s)
{
    float lanes[LANES];
    for (uint32_t i = 0; i < LANES; i++)
        lanes[i] = (float)s.lanes[i];
    return vec_load(lanes);
}

INLINE weights64 weights_load(const uint8_t *w)
{
    return w;
}

INLINE factors factors_load(const int8_t *x)
{
    return x;
}

INLINE vec_int vec_int_dot(vec_int s, weights64 w, factors x)
{
    for (uint32_t i = 0; i < LANES; i++)
        for (uint32_t j = 0; j < 4; j++)
            s.lanes[i] += w[4 * i + j] * x[j];
    return s;
}

#endif
