/*
 * rows - functions for one row: RMS norm, rotation, largest magnitude, widening from and narrowing to a
 * dtype.
 */
#pragma once

#include "kernels/cpu/vector/vec.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>

/* Loads sixteen elements from i on of a row of n, with zeros after the last. */
INLINE vec load_from(enum dtype dtype, const void *array, uint32_t i, uint32_t n)
{
    const char *first = (const char *)array + i * dtype_bytes(dtype);
    return n - i >= LANES ? vec_load_as(dtype, first) : vec_load_some(dtype, first, n - i);
}

/* Stores sixteen elements from i on of a row of n, without those after the last. */
INLINE void store_from(float *array, vec v, uint32_t i, uint32_t n)
{
    if (n - i >= LANES)
        vec_store(array + i, v);
    else
        vec_store_some(array + i, v, n - i);
}

/* 1 / sqrt(mean((x - mean)^2) + eps) */
static inline float row_factor(const float *x, uint32_t n, float mean, float eps)
{
    vec squares = vec_zero();
    uint32_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vec v = vec_sub(vec_load(x + i), vec_set(mean));
        squares = vec_fma(v, v, squares);
    }
    if (i < n) {
        float rest[LANES] = {0};
        for (uint32_t j = i; j < n; j++)
            rest[j - i] = x[j] - mean;
        squares = vec_fma(vec_load(rest), vec_load(rest), squares);
    }
    return 1 / sqrtf(vec_sum(squares) / (float)n + eps);
}

/* y = w * x / sqrt(mean(x^2) + eps); y may be x. */
static inline void row_norm(const float *x, enum dtype w_dtype, const void *w, uint32_t n,
                            float eps, float *y)
{
    float factor = row_factor(x, n, 0, eps);
    const char *weights = w;
    size_t bytes = dtype_bytes(w_dtype);
    uint32_t i = 0;
    for (; i + LANES <= n; i += LANES) {
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
    size_t bytes = dtype_bytes(dtype);
    uint32_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES) {
        vec run[4];
        vec_load_run(dtype, (const char *)source + i * bytes, 4, run);
        for (uint32_t v = 0; v < 4; v++)
            vec_store(wide_out + i + v * LANES, run[v]);
    }
    for (; i + LANES <= n; i += LANES)
        vec_store(wide_out + i, vec_load_as(dtype, (const char *)source + i * bytes));
    if (i < n)
        vec_store_some(wide_out + i, vec_load_some(dtype, (const char *)source + i * bytes, n - i),
                       n - i);
}

INLINE void turn_pairs(const float *cos_row, const float *sin_row, uint32_t n, const uint32_t step,
                       uint32_t apart, float *head)
{
    for (uint32_t i = 0; i < n; i++) {
        float low = head[i * step];
        float high = head[i * step + apart];
        head[i * step] = low * cos_row[i] - high * sin_row[i];
        head[i * step + apart] = high * cos_row[i] + low * sin_row[i];
    }
}

/* Rotates the first n_rotary elements of a head by the angles of its position. */
static inline void row_turn(const float *cos_row, const float *sin_row, uint32_t n_rotary,
                            bool is_interleaved, float *head)
{
    const uint32_t half = n_rotary / 2;
    if (is_interleaved)
        turn_pairs(cos_row, sin_row, half, 2, 1, head);
    else
        turn_pairs(cos_row, sin_row, half, 1, half, head);
}

/* The larger of the magnitude largest and the magnitude of x; NaN if one of them is. */
static inline float larger_magnitude(float largest, float x)
{
    return fabsf(x) > largest || isnan(x) ? fabsf(x) : largest;
}

/* The largest magnitude of an element; 0 if there is none; NaN if one of them is. */
static inline float row_largest(const float *x, uint32_t n)
{
    float largest = 0;
    for (uint32_t i = 0; i < n; i++)
        largest = larger_magnitude(largest, x[i]);
    return largest;
}

/* The largest of n elements; n is a multiple of LANES and not 0. A NaN beside other numbers may be ignored: the sums show
 * it. If all other elements are -inf, the result is the NaN; otherwise the row would count as empty. */
static inline float row_maximum(const float *x, uint32_t n)
{
    vec most = vec_load(x);
    for (uint32_t i = LANES; i < n; i += LANES)
        most = vec_max(most, vec_load(x + i));
    float largest = vec_largest(most);
    for (uint32_t i = 0; largest == -INFINITY && i < n; i++)
        largest = isnan(x[i]) ? x[i] : largest;
    return largest;
}

/* Rounds value to nearest even: drops n_bits of the mantissa, or below least_normal rounds to the last bit of tiny. The
 * result is at most largest; NaN stays NaN. */
INLINE float round_to(const uint32_t n_bits, const float least_normal, const float tiny,
                      const float largest, float value)
{
    uint32_t bits;
    float magnitude = fabsf(value), normal;
    memcpy(&bits, &magnitude, sizeof bits);
    bits = (bits + (1u << (n_bits - 1)) - 1 + (bits >> n_bits & 1)) >> n_bits << n_bits;
    memcpy(&normal, &bits, sizeof normal);
    float rounded = magnitude < least_normal ? (magnitude + tiny) - tiny : normal;
    rounded = magnitude >= largest ? largest : rounded;
    return magnitude == magnitude ? copysignf(rounded, value) : value;
}

static inline float round_e4m3(float value)
{
    return round_to(20, 0x1p-6f, 0x1p14f, 448, value);
}

static inline float round_bf16(float value)
{
    return round_to(16, 0, 0, INFINITY, value);
}

static inline float round_f16(float value)
{
    return round_to(13, 0x1p-14f, 0.5f, F16_LARGEST, value);
}

#ifdef __AVX2__
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

/* Eight numbers 0 .. 255 as bytes. */
INLINE void store_bytes(__m256i numbers, char *bytes)
{
    __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(numbers),
                                     _mm256_extracti128_si256(numbers, 1));
    _mm_storel_epi64((__m128i *)(void *)bytes, _mm_packus_epi16(words, words));
}

/* Eight floats to INT8: -127 .. 127, to nearest even, NaN 0. */
INLINE __m256i narrow_int8(__m256 v)
{
    __m256 known = _mm256_and_ps(v, _mm256_cmp_ps(v, v, _CMP_ORD_Q));
    __m256 bound = _mm256_max_ps(_mm256_set1_ps(-127), _mm256_min_ps(_mm256_set1_ps(127), known));
    return _mm256_and_si256(_mm256_cvtps_epi32(bound), _mm256_set1_epi32(0xff));
}

/* Eight floats to E4M3: at most 448, to nearest even, NaN kept. */
INLINE __m256i narrow_e4m3(__m256 v)
{
    const __m256 limit = _mm256_set1_ps(0x1p14f); /* its last bit is the smallest E4M3 */
    __m256 magnitude = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v);
    __m256 bound = _mm256_min_ps(_mm256_set1_ps(448), magnitude);
    __m256i bits = _mm256_castps_si256(bound);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 20), _mm256_set1_epi32(1));
    __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7ffff)));
    __m256i normal = _mm256_sub_epi32(_mm256_srli_epi32(rounded, 20), _mm256_set1_epi32(120 << 3));
    __m256i tiny = _mm256_sub_epi32(_mm256_castps_si256(_mm256_add_ps(bound, limit)),
                                    _mm256_castps_si256(limit));
    __m256 is_tiny = _mm256_cmp_ps(bound, _mm256_set1_ps(0x1p-6f), _CMP_LT_OQ);
    __m256i code = _mm256_blendv_epi8(normal, tiny, _mm256_castps_si256(is_tiny));
    __m256 is_nan = _mm256_cmp_ps(v, v, _CMP_UNORD_Q);
    code = _mm256_blendv_epi8(code, _mm256_set1_epi32(0x7f), _mm256_castps_si256(is_nan));
    __m256i sign = _mm256_srli_epi32(_mm256_castps_si256(v), 31);
    return _mm256_or_si256(code, _mm256_slli_epi32(sign, 7));
}

INLINE void narrow_eight(__m256 v, enum dtype dtype, char *array, uint32_t at)
{
    if (dtype == DTYPE_INT8) {
        store_bytes(narrow_int8(v), array + at);
    } else if (dtype == DTYPE_E4M3) {
        store_bytes(narrow_e4m3(v), array + at);
    } else {
        __m128i half = dtype == DTYPE_F16 ? _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT)
                                          : narrow_bf16(v);
        _mm_storeu_si128((__m128i *)(void *)(array + 2 * at), half);
    }
}

/* narrow = source / scale; n is a multiple of 8. */
static inline void row_narrow(const float *source, uint32_t n, float scale, enum dtype dtype,
                              void *narrow_out)
{
    if (dtype == DTYPE_F32 && scale == 1) {
        memcpy(narrow_out, source, n * sizeof *source);
        return;
    }
    assert(dtype != DTYPE_F32);
    for (uint32_t i = 0; i < n; i += 8)
        narrow_eight(_mm256_div_ps(_mm256_loadu_ps(source + i), _mm256_set1_ps(scale)), dtype,
                     narrow_out, i);
}
#else
static inline void row_narrow(const float *source, uint32_t n, float scale, enum dtype dtype,
                              void *narrow_out)
{
    for (uint32_t i = 0; i < n; i++)
        dtype_store(dtype, narrow_out, i, source[i] / scale);
}
#endif
