/* vec_scalar - sixteen lanes as an array: plain C for machines without the vector instructions of the other forms.
 * fmaf rounds once, as their instructions do: the bits are the same. On a machine without such an instruction fmaf is a
 * call for each lane, thirty times as slow as two products; vec_fma_sse2.h computes four lanes at a time. */
#pragma once

#include <math.h>

#ifdef __FMA__
#include <immintrin.h>
#elif defined __SSE2__
#include "kernels/cpu/vector/vec_fma_sse2.h"
#endif

typedef struct {
    float lane[LANES];
} vec;

#define EACH_LANE for (uint32_t lane = 0; lane < LANES; lane++)

INLINE vec vec_set(float value)
{
    vec v;
#ifdef __FMA__
    _mm256_storeu_ps(v.lane, _mm256_set1_ps(value));
    _mm256_storeu_ps(v.lane + 8, _mm256_set1_ps(value));
#else
    EACH_LANE v.lane[lane] = value;
#endif
    return v;
}

INLINE vec vec_zero(void)
{
    return vec_set(0);
}

INLINE vec vec_load(const float *array)
{
    vec v;
    memcpy(v.lane, array, sizeof v.lane);
    return v;
}

INLINE void vec_store(float *array, vec v)
{
    memcpy(array, v.lane, sizeof v.lane);
}

INLINE vec vec_load_as(enum dtype dtype, const void *array)
{
    vec v;
    EACH_LANE v.lane[lane] = lane_load(dtype, array, lane);
    return v;
}

/* Sixteen E2M1, the first of two in the low half of a byte. */
INLINE vec vec_load_e2m1(const uint8_t *array)
{
    vec v;
    EACH_LANE v.lane[lane] = E2M1_VALUES[array[lane / 2] >> lane % 2 * 4 & 0xf];
    return v;
}

INLINE vec vec_fma(vec a, vec b, vec c)
{
#ifdef __FMA__
    for (uint32_t lane = 0; lane < LANES; lane += 8)
        _mm256_storeu_ps(c.lane + lane, _mm256_fmadd_ps(_mm256_loadu_ps(a.lane + lane),
                                                        _mm256_loadu_ps(b.lane + lane),
                                                        _mm256_loadu_ps(c.lane + lane)));
#elif defined __SSE2__
    for (uint32_t lane = 0; lane < LANES; lane += 4)
        _mm_storeu_ps(c.lane + lane,
                      fma_four(_mm_loadu_ps(a.lane + lane), _mm_loadu_ps(b.lane + lane),
                               _mm_loadu_ps(c.lane + lane)));
#else
    EACH_LANE c.lane[lane] = fmaf(a.lane[lane], b.lane[lane], c.lane[lane]);
#endif
    return c;
}

INLINE vec vec_add(vec a, vec b)
{
    EACH_LANE a.lane[lane] += b.lane[lane];
    return a;
}

INLINE vec vec_sub(vec a, vec b)
{
    EACH_LANE a.lane[lane] -= b.lane[lane];
    return a;
}

INLINE vec vec_mul(vec a, vec b)
{
    EACH_LANE a.lane[lane] *= b.lane[lane];
    return a;
}

INLINE vec vec_div(vec a, vec b)
{
    EACH_LANE a.lane[lane] /= b.lane[lane];
    return a;
}

/* b if a or b is NaN, as with the vector instructions. */
INLINE vec vec_max(vec a, vec b)
{
    EACH_LANE a.lane[lane] = a.lane[lane] > b.lane[lane] ? a.lane[lane] : b.lane[lane];
    return a;
}

INLINE vec vec_min(vec a, vec b)
{
    EACH_LANE a.lane[lane] = a.lane[lane] < b.lane[lane] ? a.lane[lane] : b.lane[lane];
    return a;
}

/* As nearbyintf, without a call: floats between 2^23 and 2^24 are whole numbers. */
INLINE vec vec_round(vec v)
{
    EACH_LANE
    {
        const float size = fabsf(v.lane[lane]);
        const float whole = copysignf(size + 0x1p23f - 0x1p23f, v.lane[lane]);
        v.lane[lane] = size < 0x1p23f ? whole : v.lane[lane];
    }
    return v;
}

/* Whole numbers from -128 to 127. */
INLINE void vec_store_int8(int8_t *array, vec v)
{
    EACH_LANE array[lane] = (int8_t)v.lane[lane];
}

/* v * 2^n; n is whole, and the result normal. */
INLINE vec vec_scale2(vec v, vec n)
{
    EACH_LANE
    {
        int32_t bits;
        memcpy(&bits, &v.lane[lane], sizeof bits);
        bits += isnan(n.lane[lane]) ? 0 : (int32_t)n.lane[lane] * (1 << 23);
        memcpy(&v.lane[lane], &bits, sizeof bits);
    }
    return v;
}

/* a where x < limit, else b. */
INLINE vec vec_choose_below(vec x, vec limit, vec a, vec b)
{
    EACH_LANE b.lane[lane] = x.lane[lane] < limit.lane[lane] ? a.lane[lane] : b.lane[lane];
    return b;
}

/* 0 where x < limit, else v. */
INLINE vec vec_zero_below(vec x, vec limit, vec v)
{
    return vec_choose_below(x, limit, vec_zero(), v);
}
