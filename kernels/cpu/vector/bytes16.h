/*
 * bytes16 - sums of products of a byte and a 16-bit whole number, sixteen side by side, with AVX-512 VNNI, which multiplies bytes.
 *
 * A number x of 16 bits is 256 high + low, both bytes with a sign, so |x| is at most 127 * 256 + 127. The sum of the products with
 * the high bytes is moved up by eight bits and goes on with the low ones: the bits of pairs16.h, from weights of half the size.
 *
 *     w       four elements of sixteen rows are a step: [16 rows][4], from 0 to 255
 *     x       32 numbers are a part: 32 high bytes, then 32 low ones
 */
#pragma once

#include "kernels/cpu/vector/vec.h"

#if defined __AVX512F__ && defined __AVX512VNNI__
#define HAS_BYTES16

enum {
    BYTES16_STEP = 4,               /* elements of a row in a step */
    BYTES16_STEP_BYTES = 4 * LANES, /* of weights */
    BYTES16_PART = 32,              /* numbers of x in a part */
    BYTES16_PART_BYTES = 2 * BYTES16_PART,
};

/* s += w * four bytes of x. */
INLINE __m512i bytes16_dot(__m512i s, __m512i w, const uint8_t *x)
{
    int32_t four;
    memcpy(&four, x, sizeof four);
    return _mm512_dpbusd_epi32(s, w, _mm512_set1_epi32(four));
}

/* The sum so far, of high bytes, before low ones are added. */
INLINE __m512i bytes16_move_up(__m512i s)
{
    return _mm512_slli_epi32(s, 8);
}

/* Sixteen whole numbers, of which the first is number `first` of a part: 0 or 16. */
INLINE void bytes16_store(uint8_t *part_out, uint32_t first, vec v)
{
    const __m512i x = _mm512_cvtps_epi32(v);
    const __m512i high = _mm512_srai_epi32(_mm512_add_epi32(x, _mm512_set1_epi32(128)), 8);
    _mm_storeu_si128((__m128i *)(void *)(part_out + first), _mm512_cvtepi32_epi8(high));
    _mm_storeu_si128((__m128i *)(void *)(part_out + BYTES16_PART + first), _mm512_cvtepi32_epi8(x));
}

/* Four registers, each with sixteen bytes of rows r, r + 4, r + 8, r + 12, become four steps. */
INLINE void bytes16_steps(const __m512i rows[4], __m512i step_out[4])
{
    const __m512i low = _mm512_unpacklo_epi32(rows[0], rows[1]);
    const __m512i high = _mm512_unpackhi_epi32(rows[0], rows[1]);
    const __m512i low_2 = _mm512_unpacklo_epi32(rows[2], rows[3]);
    const __m512i high_2 = _mm512_unpackhi_epi32(rows[2], rows[3]);
    step_out[0] = _mm512_unpacklo_epi64(low, low_2);
    step_out[1] = _mm512_unpackhi_epi64(low, low_2);
    step_out[2] = _mm512_unpacklo_epi64(high, high_2);
    step_out[3] = _mm512_unpackhi_epi64(high, high_2);
}

#endif
