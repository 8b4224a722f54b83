/* vec_sse2 - sixteen lanes in four registers, with instructions that every x86-64 has. None of them multiplies and adds at
 * once: vec_fma rounds twice, so sums have other bits than in the other sets. */
#pragma once

#include <emmintrin.h>

enum { VEC_QUARTERS = 4 };

typedef struct {
    __m128 quarter[VEC_QUARTERS];
} vec;

#define EACH_QUARTER UNROLL for (uint32_t i = 0; i < VEC_QUARTERS; i++)

INLINE vec vec_set(float value)
{
    const __m128 all = _mm_set1_ps(value);
    return (vec){{all, all, all, all}};
}

INLINE vec vec_zero(void)
{
    return vec_set(0);
}

INLINE vec vec_load(const float *array)
{
    vec v;
    EACH_QUARTER v.quarter[i] = _mm_loadu_ps(array + (size_t)4 * i);
    return v;
}

INLINE void vec_store(float *array, vec v)
{
    EACH_QUARTER _mm_storeu_ps(array + (size_t)4 * i, v.quarter[i]);
}

/* a where mask, else b. */
INLINE __m128i quarter_choose(__m128i mask, __m128i a, __m128i b)
{
    return _mm_or_si128(_mm_and_si128(mask, a), _mm_andnot_si128(mask, b));
}

/* Widens four numbers of a narrower type to floats. magnitude: their bits without the sign, with n_mantissa bits of
 * mantissa; from special on they are infinite or NaN. bias: is added to the exponent. least: the smallest subnormal.
 * sign: at its place in a float. */
INLINE __m128 quarter_widen(__m128i magnitude, __m128i sign, const int n_mantissa, const int bias,
                            const int special, const float least)
{
    const __m128i bits = _mm_add_epi32(_mm_slli_epi32(magnitude, 23 - n_mantissa),
                                       _mm_set1_epi32(bias << 23));
    const __m128i is_tiny = _mm_cmplt_epi32(magnitude, _mm_set1_epi32(1 << n_mantissa));
    const __m128 tiny = _mm_mul_ps(_mm_cvtepi32_ps(magnitude), _mm_set1_ps(least));
    const __m128i is_special = _mm_cmpgt_epi32(magnitude, _mm_set1_epi32(special - 1));
    const __m128i wide = quarter_choose(is_tiny, _mm_castps_si128(tiny), bits);
    return _mm_castsi128_ps(_mm_or_si128(
        _mm_or_si128(wide, _mm_and_si128(is_special, _mm_set1_epi32(0x7f800000))), sign));
}

INLINE __m128 quarter_f16(__m128i half)
{
    return quarter_widen(_mm_and_si128(half, _mm_set1_epi32(0x7fff)),
                         _mm_slli_epi32(_mm_srli_epi32(half, 15), 31), 10, 112, 0x7c00, 0x1p-24f);
}

INLINE __m128 quarter_e4m3(__m128i byte)
{
    return quarter_widen(_mm_and_si128(byte, _mm_set1_epi32(0x7f)),
                         _mm_slli_epi32(_mm_srli_epi32(byte, 7), 31), 3, 120, 0x7f, 0x1p-9f);
}

/* Quarter i of sixteen bytes, each in the uppermost byte of four. */
INLINE __m128i quarter_bytes(__m128i bytes, uint32_t i)
{
    const __m128i zero = _mm_setzero_si128();
    const __m128i words = i < 2 ? _mm_unpacklo_epi8(zero, bytes) : _mm_unpackhi_epi8(zero, bytes);
    return i % 2 == 0 ? _mm_unpacklo_epi16(zero, words) : _mm_unpackhi_epi16(zero, words);
}

INLINE vec vec_load_8bit(enum dtype dtype, const char *array)
{
    const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)array);
    vec v;
    EACH_QUARTER
    {
        const __m128i four = quarter_bytes(bytes, i);
        v.quarter[i] = dtype == DTYPE_E4M3 ? quarter_e4m3(_mm_srli_epi32(four, 24))
                                           : _mm_cvtepi32_ps(_mm_srai_epi32(four, 24));
    }
    return v;
}

INLINE vec vec_load_as(enum dtype dtype, const void *array)
{
    const __m128i zero = _mm_setzero_si128();
    vec v;
    if (dtype == DTYPE_F32)
        return vec_load(array);
    if (dtype == DTYPE_INT8 || dtype == DTYPE_E4M3)
        return vec_load_8bit(dtype, array);
    EACH_QUARTER
    {
        const char *four = (const char *)array + (size_t)8 * i;
        const __m128i halves = _mm_loadl_epi64((const __m128i *)(const void *)four);
        v.quarter[i] = dtype == DTYPE_F16 ? quarter_f16(_mm_unpacklo_epi16(halves, zero))
                                          : _mm_castsi128_ps(_mm_unpacklo_epi16(zero, halves));
    }
    return v;
}

/* Sixteen E2M1, the first of two in the low half of a byte. */
INLINE vec vec_load_e2m1(const uint8_t *array)
{
    float values[LANES];
    for (uint32_t lane = 0; lane < LANES; lane++)
        values[lane] = E2M1_VALUES[array[lane / 2] >> lane % 2 * 4 & 0xf];
    return vec_load(values);
}

#define OF_TWO(name, instruction)                                                                  \
    INLINE vec name(vec a, vec b)                                                                  \
    {                                                                                              \
        EACH_QUARTER a.quarter[i] = instruction(a.quarter[i], b.quarter[i]);                       \
        return a;                                                                                  \
    }

OF_TWO(vec_add, _mm_add_ps)
OF_TWO(vec_sub, _mm_sub_ps)
OF_TWO(vec_mul, _mm_mul_ps)
OF_TWO(vec_div, _mm_div_ps)
OF_TWO(vec_max, _mm_max_ps)
OF_TWO(vec_min, _mm_min_ps)
#undef OF_TWO

/* The product is rounded, then the sum. */
INLINE vec vec_fma(vec a, vec b, vec c)
{
    return vec_add(vec_mul(a, b), c);
}

/* Rounds to nearest even: floats from 2^23 on are whole numbers, so a sum with 2^23 is rounded. */
INLINE vec vec_round(vec v)
{
    const __m128 sign = _mm_set1_ps(-0.0f), whole = _mm_set1_ps(0x1p23f);
    EACH_QUARTER
    {
        const __m128 size = _mm_andnot_ps(sign, v.quarter[i]);
        const __m128 rounded = _mm_or_ps(_mm_sub_ps(_mm_add_ps(size, whole), whole),
                                         _mm_and_ps(sign, v.quarter[i]));
        v.quarter[i] = _mm_castsi128_ps(quarter_choose(_mm_castps_si128(_mm_cmplt_ps(size, whole)),
                                                       _mm_castps_si128(rounded),
                                                       _mm_castps_si128(v.quarter[i])));
    }
    return v;
}

/* Whole numbers from -128 to 127. */
INLINE void vec_store_int8(int8_t *array, vec v)
{
    const __m128i low = _mm_packs_epi32(_mm_cvtps_epi32(v.quarter[0]),
                                        _mm_cvtps_epi32(v.quarter[1]));
    const __m128i high = _mm_packs_epi32(_mm_cvtps_epi32(v.quarter[2]),
                                         _mm_cvtps_epi32(v.quarter[3]));
    _mm_storeu_si128((__m128i *)(void *)array, _mm_packs_epi16(low, high));
}

/* v * 2^n; n is whole, and the result normal. */
INLINE vec vec_scale2(vec v, vec n)
{
    EACH_QUARTER
    {
        const __m128i shift = _mm_slli_epi32(_mm_cvtps_epi32(n.quarter[i]), 23);
        v.quarter[i] = _mm_castsi128_ps(_mm_add_epi32(_mm_castps_si128(v.quarter[i]), shift));
    }
    return v;
}

/* a where x < limit, else b. */
INLINE vec vec_choose_below(vec x, vec limit, vec a, vec b)
{
    EACH_QUARTER
    {
        const __m128 is_below = _mm_cmplt_ps(x.quarter[i], limit.quarter[i]);
        b.quarter[i] = _mm_or_ps(_mm_and_ps(is_below, a.quarter[i]),
                                 _mm_andnot_ps(is_below, b.quarter[i]));
    }
    return b;
}

/* 0 where x < limit, else v. */
INLINE vec vec_zero_below(vec x, vec limit, vec v)
{
    EACH_QUARTER v.quarter[i] = _mm_andnot_ps(_mm_cmplt_ps(x.quarter[i], limit.quarter[i]),
                                              v.quarter[i]);
    return v;
}

INLINE float vec_sum(vec v)
{
    const __m128 q = _mm_add_ps(_mm_add_ps(v.quarter[0], v.quarter[2]),
                                _mm_add_ps(v.quarter[1], v.quarter[3]));
    const __m128 p = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(p, _mm_shuffle_ps(p, p, 1)));
}

INLINE float vec_largest(vec v)
{
    const __m128 q = _mm_max_ps(_mm_max_ps(v.quarter[0], v.quarter[2]),
                                _mm_max_ps(v.quarter[1], v.quarter[3]));
    const __m128 p = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(p, _mm_shuffle_ps(p, p, 1)));
}
