/*
 * vec_fma_sse2 - computes a b + c of four floats with one rounding, without an instruction for it.
 *
 *     p = a b       exact in double: 48 bits of 53
 *     s = p + c     rounded to 53 bits
 *     float(s)      rounded to 24 bits: equal to one rounding, unless s was inexact and is halfway between two floats
 *
 * Halfway means that the 29 bits below those of a float are 100...0. For results up to the smallest normal float it is
 * other bits, so these results are always checked if c is not 0 (p alone is exact).
 *
 * Thread: any.
 */
#pragma once

#include <emmintrin.h>
#include <float.h>
#include <math.h>
#include <stdint.h>

/* Computes the lanes of mask again with the library's function, if s was inexact. */
static __attribute__((noinline)) __m128 fma_four_again(__m128 a, __m128 b, __m128 c, __m128 r,
                                                       int mask)
{
    float x[4], y[4], z[4], result[4];
    _mm_storeu_ps(x, a);
    _mm_storeu_ps(y, b);
    _mm_storeu_ps(z, c);
    _mm_storeu_ps(result, r);
    for (int i = 0; i < 4; i++) {
        const double p = (double)x[i] * (double)y[i], s = p + (double)z[i], of_c = s - p;
        const double lost = (p - (s - of_c)) + ((double)z[i] - of_c); /* Knuth's TwoSum */
        if ((mask >> i & 1) && lost != 0)
            result[i] = fmaf(x[i], y[i], z[i]);
    }
    return _mm_loadu_ps(result);
}

INLINE __m128 fma_four(__m128 a, __m128 b, __m128 c)
{
    const __m128 size = _mm_castsi128_ps(_mm_set1_epi32(0x7fffffff));
    const __m128d low = _mm_add_pd(_mm_mul_pd(_mm_cvtps_pd(a), _mm_cvtps_pd(b)), _mm_cvtps_pd(c));
    const __m128d high = _mm_add_pd(
        _mm_mul_pd(_mm_cvtps_pd(_mm_movehl_ps(a, a)), _mm_cvtps_pd(_mm_movehl_ps(b, b))),
        _mm_cvtps_pd(_mm_movehl_ps(c, c)));
    const __m128 r = _mm_movelh_ps(_mm_cvtpd_ps(low), _mm_cvtpd_ps(high));
    const __m128i bits = _mm_castps_si128(
        _mm_shuffle_ps(_mm_castpd_ps(low), _mm_castpd_ps(high), _MM_SHUFFLE(2, 0, 2, 0)));
    const __m128 is_half = _mm_castsi128_ps(
        _mm_cmpeq_epi32(_mm_slli_epi32(bits, 3), _mm_set1_epi32(INT32_MIN)));
    const __m128 is_tiny = _mm_and_ps(_mm_cmple_ps(_mm_and_ps(r, size), _mm_set1_ps(FLT_MIN)),
                                      _mm_cmpneq_ps(c, _mm_setzero_ps()));
    const int mask = _mm_movemask_ps(_mm_or_ps(is_half, is_tiny));
    return __builtin_expect(mask != 0, 0) ? fma_four_again(a, b, c, r, mask) : r;
}
