/* vec_avx512 - sixteen lanes in one register. */
#pragma once

typedef __m512 vec;

INLINE vec vec_zero(void)
{
    return _mm512_setzero_ps();
}

INLINE vec vec_set(float value)
{
    return _mm512_set1_ps(value);
}

INLINE vec vec_load(const float *array)
{
    return _mm512_loadu_ps(array);
}

INLINE void vec_store(float *array, vec v)
{
    _mm512_storeu_ps(array, v);
}

/* The first n <= 16 floats. Loads zeros after them, and stores nothing there. */
INLINE vec vec_load_first(const float *array, uint32_t n)
{
    return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), array);
}

INLINE void vec_store_first(float *array, vec v, uint32_t n)
{
    _mm512_mask_storeu_ps(array, (__mmask16)((1u << n) - 1), v);
}

/* Sign-extended E4M3 as float16, with 2^-8 of their value: see widen_e4m3. */
INLINE __m512i e4m3_halves(__m512i wide)
{
    const __m512i nan_step = _mm512_set1_epi16(0x80), nan_bit = _mm512_set1_epi16(0x4000);
    __m512i half = _mm512_andnot_si512(nan_bit, _mm512_slli_epi16(wide, 7));
    return _mm512_or_si512(half, _mm512_and_si512(_mm512_add_epi16(half, nan_step), nan_bit));
}

INLINE vec vec_load_e4m3(const void *array)
{
    __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)array));
    __m512i half = e4m3_halves(_mm512_castsi256_si512(wide));
    return _mm512_mul_ps(_mm512_cvtph_ps(_mm512_castsi512_si256(half)), _mm512_set1_ps(256));
}

/* Sixteen E2M1, the first of two in the low half of a byte. */
INLINE vec vec_load_e2m1(const uint8_t *array)
{
    const __m128i low_half = _mm_set1_epi8(0xf);
    __m128i pairs = _mm_loadl_epi64((const __m128i *)(const void *)array);
    __m128i codes = _mm_unpacklo_epi8(_mm_and_si128(pairs, low_half),
                                      _mm_and_si128(_mm_srli_epi16(pairs, 4), low_half));
    return _mm512_permutexvar_ps(_mm512_cvtepu8_epi32(codes), _mm512_loadu_ps(E2M1_VALUES));
}

/* Sixteen F16 or BF16. */
INLINE vec vec_widen_half(enum dtype dtype, __m256i halves)
{
    if (dtype == DTYPE_F16)
        return _mm512_cvtph_ps(halves);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

INLINE vec vec_load_as(enum dtype dtype, const void *array)
{
    if (dtype == DTYPE_F32)
        return _mm512_loadu_ps(array);
    if (dtype == DTYPE_INT8)
        return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)array)));
    if (dtype == DTYPE_E4M3)
        return vec_load_e4m3(array);
    return vec_widen_half(dtype, _mm256_loadu_si256((const __m256i *)array));
}

INLINE vec vec_fma(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}

INLINE vec vec_add(vec a, vec b)
{
    return _mm512_add_ps(a, b);
}

INLINE vec vec_sub(vec a, vec b)
{
    return _mm512_sub_ps(a, b);
}

INLINE vec vec_mul(vec a, vec b)
{
    return _mm512_mul_ps(a, b);
}

INLINE vec vec_div(vec a, vec b)
{
    return _mm512_div_ps(a, b);
}

INLINE vec vec_max(vec a, vec b)
{
    return _mm512_max_ps(a, b);
}

INLINE vec vec_min(vec a, vec b)
{
    return _mm512_min_ps(a, b);
}

INLINE vec vec_round(vec v)
{
    return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* Whole numbers from -128 to 127. */
INLINE void vec_store_int8(int8_t *array, vec v)
{
    _mm_storeu_si128((__m128i *)(void *)array, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v)));
}

/* v * 2^n; n is whole, and the result normal. */
INLINE vec vec_scale2(vec v, vec n)
{
    __m512i shift = _mm512_slli_epi32(_mm512_cvtps_epi32(n), 23);
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(v), shift));
}

/* 0 where x < limit, else v. */
INLINE vec vec_zero_below(vec x, vec limit, vec v)
{
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, limit, _CMP_NLT_UQ), v);
}

/* a where x < limit, else b. */
INLINE vec vec_choose_below(vec x, vec limit, vec a, vec b)
{
    return _mm512_mask_mov_ps(b, _mm512_cmp_ps_mask(x, limit, _CMP_LT_OQ), a);
}

/* The lane sums of sixteen vectors, each in the order of vec_sum. */
INLINE vec vec_sum16(const vec v[16])
{
    const __m512i order = _mm512_setr_epi32(0, 2, 1, 3, 8, 10, 9, 11, 4, 6, 5, 7, 12, 14, 13, 15);
    vec h[8], q[4], p[2];
    UNROLL
    for (int i = 0; i < 8; i++) /* lanes 8 apart: vector i in the low half, i + 8 in the high */
        h[i] = _mm512_add_ps(_mm512_shuffle_f32x4(v[i], v[i + 8], 0x44),
                             _mm512_shuffle_f32x4(v[i], v[i + 8], 0xee));
    UNROLL
    for (int i = 0; i < 4; i++) /* 4 apart: quarters are i, i + 8, i + 4, i + 12 */
        q[i] = _mm512_add_ps(_mm512_shuffle_f32x4(h[i], h[i + 4], 0x88),
                             _mm512_shuffle_f32x4(h[i], h[i + 4], 0xdd));
    UNROLL
    for (int i = 0; i < 2; i++) /* 2 apart: i, i + 2 */
        p[i] = _mm512_add_ps(_mm512_shuffle_ps(q[i], q[i + 2], 0x44),
                             _mm512_shuffle_ps(q[i], q[i + 2], 0xee));
    vec s = _mm512_add_ps(_mm512_shuffle_ps(p[0], p[1], 0x88), _mm512_shuffle_ps(p[0], p[1], 0xdd));
    return _mm512_permutexvar_ps(order, s); /* a quarter's lanes were vectors 0, 2, 1, 3 of it */
}

INLINE __m256 vec_low(vec v)
{
    return _mm512_castps512_ps256(v);
}

INLINE __m256 vec_high(vec v)
{
    return _mm512_extractf32x8_ps(v, 1);
}
