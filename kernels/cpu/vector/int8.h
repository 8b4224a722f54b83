/*
 * int8 - adds four INT8 products to each of sixteen int32 sums: one step of an INT8 product.
 *
 * vec_int_dot adds w[4 i + j] * x[j] for j = 0 .. 3 to lane i. Weights are stored plus 128, because the dot product
 * instructions need one unsigned factor; the caller subtracts 128 times the sum of x. All numbers are whole, so every
 * instruction set gives the same.
 */
#pragma once

#include "kernels/cpu/vector/vec.h"

#ifdef __AVX2__
/* The factors of four products as one number. */
INLINE int32_t factors_four(const int8_t *x)
{
    int32_t four;
    memcpy(&four, x, sizeof four);
    return four;
}
#endif

#if defined(__AVX512F__)

typedef __m512i vec_int;
typedef __m512i weights64;
typedef __m512i factors;

INLINE vec_int vec_int_set(int32_t value)
{
    return _mm512_set1_epi32(value);
}

INLINE vec vec_int_to_vec(vec_int s)
{
    return _mm512_cvtepi32_ps(s);
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
    return _mm512_dpbusd_epi32(s, w, x);
#else
    /* Even and odd bytes as int16: nothing saturates. */
    __m512i low = _mm512_madd_epi16(_mm512_and_si512(w, _mm512_set1_epi16(0xff)),
                                    _mm512_srai_epi16(_mm512_slli_epi16(x, 8), 8));
    __m512i high = _mm512_madd_epi16(_mm512_srli_epi16(w, 8), _mm512_srai_epi16(x, 8));
    return _mm512_add_epi32(s, _mm512_add_epi32(low, high));
#endif
}

#elif defined(__AVX2__)

typedef struct {
    __m256i low, high;
} vec_int;
typedef vec_int weights64;
typedef __m256i factors;

INLINE vec_int vec_int_set(int32_t value)
{
    return (vec_int){_mm256_set1_epi32(value), _mm256_set1_epi32(value)};
}

INLINE vec vec_int_to_vec(vec_int s)
{
    return (vec){_mm256_cvtepi32_ps(s.low), _mm256_cvtepi32_ps(s.high)};
}

INLINE weights64 weights_load(const uint8_t *w)
{
    return (weights64){_mm256_loadu_si256((const __m256i *)(const void *)w),
                       _mm256_loadu_si256((const __m256i *)(const void *)(w + 32))};
}

INLINE factors factors_load(const int8_t *x)
{
    return _mm256_set1_epi32(factors_four(x));
}

INLINE __m256i half_dot(__m256i s, __m256i w, factors x)
{
#ifdef __AVXVNNI__
    return _mm256_dpbusd_avx_epi32(s, w, x);
#else
    __m256i low = _mm256_madd_epi16(_mm256_and_si256(w, _mm256_set1_epi16(0xff)),
                                    _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8));
    __m256i high = _mm256_madd_epi16(_mm256_srli_epi16(w, 8), _mm256_srai_epi16(x, 8));
    return _mm256_add_epi32(s, _mm256_add_epi32(low, high));
#endif
}

INLINE vec_int vec_int_dot(vec_int s, weights64 w, factors x)
{
    return (vec_int){half_dot(s.low, w.low, x), half_dot(s.high, w.high, x)};
}

#else

typedef struct {
    int32_t lanes[LANES];
} vec_int;
typedef const uint8_t *weights64;
typedef const int8_t *factors;

INLINE vec_int vec_int_set(int32_t value)
{
    vec_int s;
    for (uint32_t i = 0; i < LANES; i++)
        s.lanes[i] = value;
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
