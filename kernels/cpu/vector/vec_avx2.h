/* vec_avx2 - sixteen lanes in two registers. */
#pragma once

typedef struct {
    __m256 low, high;
} vec;

INLINE vec vec_zero(void)
{
    return (vec){_mm256_setzero_ps(), _mm256_setzero_ps()};
}

INLINE vec vec_set(float value)
{
    return (vec){_mm256_set1_ps(value), _mm256_set1_ps(value)};
}

INLINE vec vec_load(const float *array)
{
    return (vec){_mm256_loadu_ps(array), _mm256_loadu_ps(array + 8)};
}

INLINE void vec_store(float *array, vec v)
{
    _mm256_storeu_ps(array, v.low);
    _mm256_storeu_ps(array + 8, v.high);
}

/* Eight elements of any dtype but E4M3, which is widened sixteen at a time. */
INLINE __m256 vec_half_as(enum dtype dtype, const char *array, size_t half)
{
    if (dtype == DTYPE_F32)
        return _mm256_loadu_ps((const float *)(const void *)(array + half * 32));
    if (dtype == DTYPE_INT8)
        return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(
            _mm_loadl_epi64((const __m128i *)(const void *)(array + half * 8))));
    __m128i raw = _mm_loadu_si128((const __m128i *)(const void *)(array + half * 16));
    if (dtype == DTYPE_F16)
        return _mm256_cvtph_ps(raw);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(raw), 16));
}

/* E4M3 in the high bytes of 16-bit lanes become F16 that are 2^-8 of their value, also for subnormals: their bits below the
 * sign, read as F16. Only NaN needs a special case. What the low bytes hold is dropped. */
INLINE __m256i e4m3_halves(__m256i lanes)
{
    const __m256i nan_step = _mm256_set1_epi16(0x80);
    const __m256i nan_bit = _mm256_set1_epi16(0x4000);
    __m256i half = _mm256_and_si256(_mm256_srai_epi16(lanes, 1), _mm256_set1_epi16((short)0xbf80));
    return _mm256_or_si256(half, _mm256_and_si256(_mm256_add_epi16(half, nan_step), nan_bit));
}

#define E4M3_OF_HALF 256.0f

INLINE vec widen16_e4m3(__m128i bytes)
{
    const __m256 unit = _mm256_set1_ps(E4M3_OF_HALF);
    __m256i half = e4m3_halves(_mm256_slli_epi16(_mm256_cvtepi8_epi16(bytes), 8));
    return (vec){_mm256_mul_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(half)), unit),
                 _mm256_mul_ps(_mm256_cvtph_ps(_mm256_extracti128_si256(half, 1)), unit)};
}

/* In a code three bits are the magnitude, the fourth is the sign. */
INLINE __m256 e2m1_values(__m128i codes)
{
    __m256i index = _mm256_cvtepu8_epi32(codes);
    __m256i sign = _mm256_and_si256(_mm256_slli_epi32(index, 28), _mm256_set1_epi32(INT32_MIN));
    __m256 magnitude = _mm256_permutevar8x32_ps(_mm256_loadu_ps(E2M1_VALUES), index);
    return _mm256_or_ps(magnitude, _mm256_castsi256_ps(sign));
}

/* Sixteen E2M1, the first of two in the low half of a byte. */
INLINE vec vec_load_e2m1(const uint8_t *array)
{
    const __m128i low_half = _mm_set1_epi8(0xf);
    __m128i pairs = _mm_loadl_epi64((const __m128i *)(const void *)array);
    __m128i codes = _mm_unpacklo_epi8(_mm_and_si128(pairs, low_half),
                                      _mm_and_si128(_mm_srli_epi16(pairs, 4), low_half));
    return (vec){e2m1_values(codes), e2m1_values(_mm_srli_si128(codes, 8))};
}

INLINE vec vec_load_as(enum dtype dtype, const void *array)
{
    if (dtype == DTYPE_E4M3)
        return widen16_e4m3(_mm_loadu_si128((const __m128i *)array));
    return (vec){vec_half_as(dtype, array, 0), vec_half_as(dtype, array, 1)};
}

INLINE vec vec_fma(vec a, vec b, vec c)
{
    return (vec){_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}

INLINE vec vec_add(vec a, vec b)
{
    return (vec){_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
}

INLINE vec vec_sub(vec a, vec b)
{
    return (vec){_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
}

INLINE vec vec_mul(vec a, vec b)
{
    return (vec){_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}

INLINE vec vec_div(vec a, vec b)
{
    return (vec){_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)};
}

INLINE vec vec_max(vec a, vec b)
{
    return (vec){_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
}

INLINE vec vec_min(vec a, vec b)
{
    return (vec){_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)};
}

INLINE vec vec_round(vec v)
{
    return (vec){_mm256_round_ps(v.low, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
                 _mm256_round_ps(v.high, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}

INLINE __m256 vec_half_scale2(__m256 v, __m256 n)
{
    __m256i shift = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(v), shift));
}

/* Whole numbers from -128 to 127. */
INLINE void vec_store_int8(int8_t *array, vec v)
{
    __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32(v.low), _mm256_cvtps_epi32(v.high));
    words = _mm256_permute4x64_epi64(words, 0xd8); /* the quarters of both registers alternate */
    _mm_storeu_si128((__m128i *)(void *)array, _mm_packs_epi16(_mm256_castsi256_si128(words),
                                                               _mm256_extracti128_si256(words, 1)));
}

/* v * 2^n; n is whole, and the result normal. */
INLINE vec vec_scale2(vec v, vec n)
{
    return (vec){vec_half_scale2(v.low, n.low), vec_half_scale2(v.high, n.high)};
}

/* 0 where x < limit, else v. */
INLINE vec vec_zero_below(vec x, vec limit, vec v)
{
    return (vec){_mm256_and_ps(_mm256_cmp_ps(x.low, limit.low, _CMP_NLT_UQ), v.low),
                 _mm256_and_ps(_mm256_cmp_ps(x.high, limit.high, _CMP_NLT_UQ), v.high)};
}

/* a where x < limit, else b. */
INLINE vec vec_choose_below(vec x, vec limit, vec a, vec b)
{
    return (vec){_mm256_blendv_ps(b.low, a.low, _mm256_cmp_ps(x.low, limit.low, _CMP_LT_OQ)),
                 _mm256_blendv_ps(b.high, a.high, _mm256_cmp_ps(x.high, limit.high, _CMP_LT_OQ))};
}

INLINE __m256 vec_low(vec v)
{
    return v.low;
}

INLINE __m256 vec_high(vec v)
{
    return v.high;
}
