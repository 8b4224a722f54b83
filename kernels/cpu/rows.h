/*
 * rows - one row at a time: RMS norm, and widening from and narrowing to a dtype.
 */
#pragma once

#include "kernels/cpu/vec.h"

#include <math.h>

/* y = w * x / sqrt(mean(x^2) + eps); y may be x. */
static inline void row_norm(const float *x, enum dtype w_dtype, const void *w, uint32_t n,
                            float eps, float *y)
{
    vec squares = vec_zero();
    uint32_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vec v = vec_load(x + i);
        squares = vec_fma(v, v, squares);
    }
    if (i < n) {
        vec v = vec_load_some(DTYPE_F32, x + i, n - i);
        squares = vec_fma(v, v, squares);
    }
    float factor = 1 / sqrtf(vec_sum(squares) / (float)n + eps);
    const char *weights = w;
    size_t bytes = w_dtype == DTYPE_F32 ? 4 : 2;
    for (i = 0; i + LANES <= n; i += LANES) {
        vec scaled = vec_mul(vec_load(x + i), vec_set(factor));
        vec_store(y + i, vec_mul(scaled, vec_load_as(w_dtype, weights + i * bytes)));
    }
    if (i < n) {
        vec scaled = vec_mul(vec_load_some(DTYPE_F32, x + i, n - i), vec_set(factor));
        vec weight = vec_load_some(w_dtype, weights + i * bytes, n - i);
        vec_store_some(y + i, vec_mul(scaled, weight), n - i);
    }
}

static inline void row_widen(enum dtype dtype, const void *source, uint32_t n, float *wide_out)
{
    size_t bytes = dtype == DTYPE_F32 ? 4 : 2;
    uint32_t i = 0;
    for (; i + LANES <= n; i += LANES)
        vec_store(wide_out + i, vec_load_as(dtype, (const char *)source + i * bytes));
    if (i < n)
        vec_store_some(wide_out + i, vec_load_some(dtype, (const char *)source + i * bytes, n - i),
                       n - i);
}

/* Eight floats to BF16, to nearest even, NaN kept. */
INLINE __m128i narrow_bf16(__m256 v)
{
    __m256i bits = _mm256_castps_si256(v);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    __m256 is_nan = _mm256_cmp_ps(v, v, _CMP_UNORD_Q);
    __m256i chosen = _mm256_srli_epi32(
        _mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(is_nan)), 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(chosen), _mm256_extracti128_si256(chosen, 1));
}

/* n is a multiple of 8. */
static inline void row_narrow(const float *source, uint32_t n, enum dtype dtype, void *narrow_out)
{
    if (dtype == DTYPE_F32) {
        memcpy(narrow_out, source, n * sizeof *source);
        return;
    }
    for (uint32_t i = 0; i < n; i += 8) {
        __m256 v = _mm256_loadu_ps(source + i);
        __m128i half = dtype == DTYPE_F16 ? _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT)
                                          : narrow_bf16(v);
        _mm_storeu_si128((__m128i *)((char *)narrow_out + 2 * i), half);
    }
}
