/*
 * tile_transpose_avx512 - transposes the keys of a tile into columns of k_t, sixteen at a time: 16 x 16 elements of 32
 * bits, each one float32, two BF16 or four INT8 of a key.
 *
 * Types that are slow to widen from such an element are widened before: F16 to float32; E4M3 to BF16, which holds it
 * exactly. With VBMI's byte tables, four E4M3 form an element, as with INT8.
 */
#pragma once

#include "kernels/cpu/attention/tile.h"
#include "kernels/cpu/vector/transpose.h"

enum { TRANSPOSED_STRIPS = 2, TRANSPOSED_KEYS = TRANSPOSED_STRIPS * STRIP_KEYS };

/* Thirty-two E4M3 as BF16: the exponent moves from 7 to 127; subnormals and NaN from a table. */
INLINE __m512i e4m3_to_bf16(__m256i bytes)
{
    static const uint16_t tiny[32] = {0,      0x3b00, 0x3b80, 0x3bc0,       0x3c00,
                                      0x3c20, 0x3c40, 0x3c60, [31] = 0x7fc0};
    __m512i wide = _mm512_cvtepi8_epi16(bytes);
    __m512i shifted = _mm512_slli_epi16(wide, 4);
    __m512i magnitude = _mm512_and_si512(shifted, _mm512_set1_epi16(0x07f0));
    __mmask32 is_tiny = _mm512_testn_epi16_mask(magnitude, _mm512_set1_epi16(0x0780));
    __mmask32 is_nan = _mm512_cmpeq_epi16_mask(magnitude, _mm512_set1_epi16(0x07f0));
    __m512i value = _mm512_add_epi16(magnitude, _mm512_set1_epi16(0x3c00));
    value = _mm512_mask_permutexvar_epi16(value, is_tiny | is_nan, wide, _mm512_loadu_si512(tiny));
    __m512i sign = _mm512_and_si512(wide, _mm512_set1_epi16((short)0x8000));
    return _mm512_or_si512(value, sign);
}

/* Loads elements of 32 bits from dim on, with zeros after n_dims dims. */
INLINE __m512 load_elements(const enum dtype dtype, const char *key, uint32_t dim, uint32_t n_dims)
{
    const uint64_t bits = n_dims < 64 ? (UINT64_C(1) << n_dims) - 1 : ~UINT64_C(0);
    switch (dtype) {
    case DTYPE_F32:
        return _mm512_maskz_loadu_ps((__mmask16)bits, (const float *)(const void *)key + dim);
    case DTYPE_F16:
        return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16((__mmask16)bits, key + 2 * dim));
    case DTYPE_BF16:
        return _mm512_castsi512_ps(_mm512_maskz_loadu_epi16((__mmask32)bits, key + 2 * dim));
#ifndef __AVX512VBMI__
    case DTYPE_E4M3:
        return _mm512_castsi512_ps(
            e4m3_to_bf16(_mm256_maskz_loadu_epi8((__mmask32)bits, key + dim)));
#endif
    default:
        return _mm512_castsi512_ps(_mm512_maskz_loadu_epi8((__mmask64)bits, key + dim));
    }
}

INLINE uint32_t elements_per_lane(const enum dtype dtype)
{
#ifdef __AVX512VBMI__
    return 4 / (uint32_t)dtype_bytes(dtype == DTYPE_F16 ? DTYPE_F32 : dtype);
#else
    return dtype == DTYPE_INT8 ? 4 : dtype == DTYPE_BF16 || dtype == DTYPE_E4M3 ? 2 : 1;
#endif
}

/* Widens elements_per_lane dims of sixteen keys. */
INLINE void widen_elements(const enum dtype dtype, __m512 column, __m512 wide_out[4])
{
    const __m512i bits = _mm512_castps_si512(column);
    if (dtype == DTYPE_F32 || dtype == DTYPE_F16) {
        wide_out[0] = column;
#ifdef __AVX512VBMI__
    } else if (dtype == DTYPE_E4M3) {
        e4m3_widen_lanes(bits, wide_out);
#endif
    } else if (dtype == DTYPE_INT8) {
        UNROLL
        for (unsigned i = 0; i < 4; i++) {
            __m512i byte = _mm512_srai_epi32(_mm512_slli_epi32(bits, 24 - 8 * i), 24);
            wide_out[i] = _mm512_cvtepi32_ps(byte);
        }
    } else {
        __m512i odd = _mm512_and_si512(bits, _mm512_set1_epi32((int)0xffff0000u));
        wide_out[0] = _mm512_castsi512_ps(_mm512_slli_epi32(bits, 16));
        wide_out[1] = _mm512_castsi512_ps(odd);
    }
}

/* Stores one column of elements into the columns of its dims. */
INLINE void store_column(const enum dtype dtype, __m512 column, float *k_t)
{
    __m512 wide[4];
    widen_elements(dtype, column, wide);
    UNROLL
    for (unsigned i = 0; i < elements_per_lane(dtype); i++)
        _mm512_storeu_ps(k_t + (size_t)i * TILE_KEYS, wide[i]);
}

/* Transposes sixteen keys into columns of k_t. */
INLINE void transpose_keys(const enum dtype dtype, const char *const keys[TRANSPOSED_KEYS],
                           uint32_t head_dim, struct tile_ahead *ahead, float *k_t)
{
    const uint32_t n_per = elements_per_lane(dtype);
    __m512 rows[TRANSPOSED_KEYS];
    uint32_t dim = 0;
    for (; dim + 16 * n_per <= head_dim; dim += 16 * n_per) {
        UNROLL
        for (uint32_t i = 0; i < TRANSPOSED_KEYS; i++) {
            if (i % 4 == 0)
                tile_ask(ahead);
            rows[i] = load_elements(dtype, keys[i], dim, 16 * n_per);
        }
        transpose16(rows);
        UNROLL
        for (uint32_t i = 0; i < 16; i++)
            store_column(dtype, rows[i], k_t + (size_t)(dim + i * n_per) * TILE_KEYS);
    }
    if (dim == head_dim)
        return;
    for (uint32_t i = 0; i < TRANSPOSED_KEYS; i++)
        rows[i] = load_elements(dtype, keys[i], dim, head_dim - dim);
    transpose16(rows);
    for (uint32_t i = 0; dim < head_dim; i++, dim += n_per)
        store_column(dtype, rows[i], k_t + (size_t)dim * TILE_KEYS);
}
