/*
 * e4m3_vbmi - widens sixty-four E4M3 at a time with two tables: the high and the low byte of the BF16 for each
 * magnitude of seven bits.
 */
#pragma once

#include <immintrin.h>
#include <stdint.h>

/* Subnormals; then the exponent moves from 7 to 127; the last is NaN. */
#define E4M3_TINY(c)                                                                               \
    ((c) == 0 ? 0 : (c) == 1 ? 0x3b00 : (c) < 4 ? 0x3b80 + 0x40 * ((c)-2) : 0x3c00 + 0x20 * ((c)-4))
#define E4M3_BF16(c)  ((c) < 8 ? E4M3_TINY(c) : (c) == 127 ? 0x7fc0 : 0x3c00 + 0x10 * (c))
#define E4M3_HIGH(c)  (uint8_t)(E4M3_BF16(c) >> 8)
#define E4M3_LOW(c)   (uint8_t)(E4M3_BF16(c) & 0xff)
#define E4M3_4(f, c)  f(c), f((c) + 1), f((c) + 2), f((c) + 3)
#define E4M3_16(f, c) E4M3_4(f, c), E4M3_4(f, (c) + 4), E4M3_4(f, (c) + 8), E4M3_4(f, (c) + 12)
#define E4M3_64(f, c)                                                                              \
    E4M3_16(f, c), E4M3_16(f, (c) + 16), E4M3_16(f, (c) + 32), E4M3_16(f, (c) + 48)

static const uint8_t E4M3_HIGHS[128] = {E4M3_64(E4M3_HIGH, 0), E4M3_64(E4M3_HIGH, 64)};
static const uint8_t E4M3_LOWS[128] = {E4M3_64(E4M3_LOW, 0), E4M3_64(E4M3_LOW, 64)};

struct e4m3_bytes {
    __m512i high, low; /* of the code in the same place */
};

INLINE __m512i e4m3_lookup(const uint8_t table[128], __m512i codes)
{
    return _mm512_permutex2var_epi8(_mm512_loadu_si512(table), codes,
                                    _mm512_loadu_si512(table + 64));
}

INLINE struct e4m3_bytes e4m3_bytes(__m512i codes)
{
    __m512i sign = _mm512_and_si512(codes, _mm512_set1_epi8((char)0x80));
    return (struct e4m3_bytes){_mm512_or_si512(e4m3_lookup(E4M3_HIGHS, codes), sign),
                               e4m3_lookup(E4M3_LOWS, codes)};
}

/* Widens to four vectors of sixteen. */
INLINE void e4m3_widen64(const void *array, __m512 wide_out[4])
{
    /* Unpacking works inside quarters of a register: quarter q gets, of each vector, the four codes from 4 q
     * on. */
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i zero = _mm512_setzero_si512();
    struct e4m3_bytes bytes = e4m3_bytes(
        _mm512_permutexvar_epi32(order, _mm512_loadu_si512(array)));
    __m512i first = _mm512_unpacklo_epi8(bytes.low, bytes.high);
    __m512i second = _mm512_unpackhi_epi8(bytes.low, bytes.high);
    wide_out[0] = _mm512_castsi512_ps(_mm512_unpacklo_epi16(zero, first));
    wide_out[1] = _mm512_castsi512_ps(_mm512_unpackhi_epi16(zero, first));
    wide_out[2] = _mm512_castsi512_ps(_mm512_unpacklo_epi16(zero, second));
    wide_out[3] = _mm512_castsi512_ps(_mm512_unpackhi_epi16(zero, second));
}

/* Widens byte i of each lane into wide_out[i]. */
INLINE void e4m3_widen_lanes(__m512i lanes, __m512 wide_out[4])
{
    const __mmask64 odd = 0xaaaaaaaaaaaaaaaa; /* bytes */
    const __m512i high_half = _mm512_set1_epi32((int)0xffff0000u);
    struct e4m3_bytes bytes = e4m3_bytes(lanes);
    __m512i evens = _mm512_mask_mov_epi8(bytes.low, odd, _mm512_slli_epi16(bytes.high, 8));
    __m512i odds = _mm512_mask_mov_epi8(_mm512_srli_epi16(bytes.low, 8), odd, bytes.high);
    wide_out[0] = _mm512_castsi512_ps(_mm512_slli_epi32(evens, 16));
    wide_out[1] = _mm512_castsi512_ps(_mm512_slli_epi32(odds, 16));
    wide_out[2] = _mm512_castsi512_ps(_mm512_and_si512(evens, high_half));
    wide_out[3] = _mm512_castsi512_ps(_mm512_and_si512(odds, high_half));
}
