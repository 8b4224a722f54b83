/*
 * vec - sixteen float32 lanes: one register with AVX-512, two with AVX2, four with SSE2 or NEON, an array in plain C.
 *
 * All forms do the same operations in the same order, so all code that uses them gives the
 * same bits, except that vec_fma rounds twice with SSE2. vec_sum always adds lanes i and i + 8, then 4, 2 and 1 apart.
 * The build defines SET_SSE2 for the set sse2 and SET_NEON for those of NEON; compiler macros of the instructions show
 * the other sets.
 */
#pragma once

#include "kernels/dtype.h"

#ifdef __AVX2__
#include <immintrin.h>
#endif

#define LANES 16u
/* Plain C needs sixteen operations where the others need one or two: with forced unrolling and inlining it
 * would take minutes to compile. */
#if defined __AVX2__ || defined SET_SSE2 || defined SET_NEON
#define INLINE static inline __attribute__((always_inline))
#else
#define INLINE static inline
#endif
#if !defined __AVX2__ && !defined SET_SSE2 && !defined SET_NEON
#define UNROLL
#elif defined __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

#ifdef __AVX2__
/* Widens eight E4M3. Their bits below the sign, read as float16, are 2^-8 of their value, also for subnormals. Only NaN
 * needs a special case. */
INLINE __m256 widen_e4m3(__m128i bytes)
{
    const __m128i nan_step = _mm_set1_epi16(0x80);
    const __m128i nan_bit = _mm_set1_epi16(0x4000);
    __m128i half = _mm_andnot_si128(nan_bit, _mm_slli_epi16(_mm_cvtepi8_epi16(bytes), 7));
    half = _mm_or_si128(half, _mm_and_si128(_mm_add_epi16(half, nan_step), nan_bit));
    return _mm256_mul_ps(_mm256_cvtph_ps(half), _mm256_set1_ps(256));
}
#endif

/* The value of each E2M1 code. */
static const float E2M1_VALUES[16] = {0,     0.5f,  1,  1.5f,  2,  3,  4,  6,
                                      -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

#ifdef __AVX512VBMI__
#include "kernels/cpu/vector/e4m3_vbmi.h"
#endif

#ifndef __AVX2__
/* As dtype_load, but without a call for F32 and BF16. */
INLINE float lane_load(enum dtype dtype, const void *array, size_t index)
{
    float value;
    uint16_t half;
    if (dtype == DTYPE_F32) {
        memcpy(&value, (const char *)array + index * sizeof value, sizeof value);
        return value;
    }
    if (dtype != DTYPE_BF16)
        return dtype_load(dtype, array, index);
    memcpy(&half, (const char *)array + index * sizeof half, sizeof half);
    const uint32_t bits = (uint32_t)half << 16;
    memcpy(&value, &bits, sizeof value);
    return value;
}
#endif

#if defined __AVX512F__
#include "kernels/cpu/vector/vec_avx512.h"
#elif defined __AVX2__
#include "kernels/cpu/vector/vec_avx2.h"
#elif defined SET_SSE2
#include "kernels/cpu/vector/vec_sse2.h"
#elif defined SET_NEON
#include "kernels/cpu/vector/vec_neon.h"
#else
#include "kernels/cpu/vector/vec_scalar.h"
#endif

/* Prefetches a line into the L2 cache. It must be inlined in all callers, or the compiler drops it. */
INLINE void vec_prefetch(const char *line)
{
#ifdef __AVX2__
    _mm_prefetch(line, _MM_HINT_T1);
#else
    (void)line;
#endif
}

/* Loads n < 16 elements of any type, with zeros after them. */
INLINE vec vec_load_some(enum dtype dtype, const void *array, uint32_t n)
{
    uint32_t padded[LANES] = {0};
    memcpy(padded, array, n * dtype_bytes(dtype));
    return vec_load_as(dtype, padded);
}

/* Loads n vectors that are side by side. */
INLINE void vec_load_run(const enum dtype dtype, const char *array, const uint32_t n, vec *run_out)
{
#ifdef __AVX512VBMI__
    if (dtype == DTYPE_E4M3 && n == 4) {
        e4m3_widen64(array, run_out);
        return;
    }
#endif
    UNROLL
    for (uint32_t i = 0; i < n; i++)
        run_out[i] = vec_load_as(dtype, array + i * LANES * dtype_bytes(dtype));
}

INLINE void vec_store_some(float *array, vec v, uint32_t n)
{
    float padded[LANES];
    vec_store(padded, v);
    memcpy(array, padded, n * sizeof *array);
}

#ifdef __AVX2__
INLINE __m256 halves_add(vec v)
{
    return _mm256_add_ps(vec_low(v), vec_high(v));
}

/* The lane sums of eight vectors, each in the order of vec_sum. */
INLINE __m256 vec_sum8(const vec v[8])
{
    __m256 h[8], q[4], p[2];
    UNROLL
    for (int i = 0; i < 8; i++)
        h[i] = halves_add(v[i]);
    UNROLL
    for (int i = 0; i < 4; i++) /* lanes 4 apart: vector i in the low half, i + 4 in the high */
        q[i] = _mm256_add_ps(_mm256_permute2f128_ps(h[i], h[i + 4], 0x20),
                             _mm256_permute2f128_ps(h[i], h[i + 4], 0x31));
    UNROLL
    for (int i = 0; i < 2; i++) /* 2 apart: i, i + 2 */
        p[i] = _mm256_add_ps(_mm256_shuffle_ps(q[i], q[i + 2], 0x44),
                             _mm256_shuffle_ps(q[i], q[i + 2], 0xee));
    __m256 s = _mm256_add_ps(_mm256_shuffle_ps(p[0], p[1], 0x88),
                             _mm256_shuffle_ps(p[0], p[1], 0xdd));
    /* the lanes of a half are now vectors 0, 2, 1, 3 */
    return _mm256_permute_ps(s, 0xd8);
}

INLINE float vec_sum(vec v)
{
    __m256 h = halves_add(v);
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    __m128 p = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(p, _mm_shuffle_ps(p, p, 1)));
}

INLINE float vec_largest(vec v)
{
    __m256 h = _mm256_max_ps(vec_low(v), vec_high(v));
    __m128 q = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    __m128 p = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(p, _mm_shuffle_ps(p, p, 1)));
}
#elif !defined SET_SSE2 && !defined SET_NEON
INLINE float vec_sum(vec v)
{
    for (uint32_t apart = LANES / 2; apart > 0; apart /= 2)
        for (uint32_t lane = 0; lane < apart; lane++)
            v.lane[lane] += v.lane[lane + apart];
    return v.lane[0];
}

INLINE float vec_largest(vec v)
{
    for (uint32_t lane = 1; lane < LANES; lane++)
        v.lane[0] = v.lane[lane] > v.lane[0] ? v.lane[lane] : v.lane[0];
    return v.lane[0];
}
#endif

/* e^x with an error of at most 2 units in the last place; 0 below -87.3, where float32 becomes subnormal; at most
 * e^88. NaN stays NaN.
 * x = n ln 2 + r, |r| <= ln 2 / 2; e^r is the Taylor series to r^7, with its last term economised. */
INLINE vec vec_exp(vec x)
{
    const vec lowest = vec_set(-87.3f);
    vec y = vec_min(vec_set(88.0f), vec_max(lowest, x)); /* in this order NaN stays NaN */
    vec n = vec_round(vec_mul(y, vec_set(1.44269504f)));
    vec r = vec_fma(n, vec_set(-0.693145752f), y);
    r = vec_fma(n, vec_set(-1.42860677e-6f), r);
    vec p = vec_set(1.0f / 720);
    p = vec_fma(p, r, vec_set(0.0083750393f));
    p = vec_fma(p, r, vec_set(1.0f / 24));
    p = vec_fma(p, r, vec_set(0.166664162f));
    p = vec_fma(p, r, vec_set(0.5f));
    p = vec_fma(p, r, vec_set(1.0f));
    p = vec_fma(p, r, vec_set(1.0f));
    return vec_zero_below(x, lowest, vec_scale2(p, n));
}

/* tanh with an error of at most 3 units in the last place; NaN stays NaN. Small x: a polynomial (Cephes). */
INLINE vec vec_tanh(vec x)
{
    const vec one = vec_set(1);
    vec square = vec_mul(x, x);
    vec p = vec_set(-5.70498872745e-3f);
    p = vec_fma(p, square, vec_set(2.06390887954e-2f));
    p = vec_fma(p, square, vec_set(-5.37397155531e-2f));
    p = vec_fma(p, square, vec_set(1.33314422036e-1f));
    p = vec_fma(p, square, vec_set(-3.33332819422e-1f));
    vec small = vec_fma(vec_mul(p, square), x, x);
    vec power = vec_exp(vec_add(x, x));
    vec large = vec_sub(one, vec_div(vec_set(2), vec_add(power, one)));
    return vec_choose_below(square, vec_set(0.390625f), small, large);
}

/* x / (1 + exp(-y)) */
INLINE vec vec_times_sigmoid(vec x, vec y)
{
    return vec_div(x, vec_add(vec_set(1), vec_exp(vec_sub(vec_zero(), y))));
}
