#include "base/crc32c.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#if defined __x86_64__
#include <immintrin.h>
#endif

/* The polynomial, bits reversed. Registers below hold the CRC without the inversions at its ends.
 */
static const uint32_t POLYNOMIAL = 0x82f63b78;

enum {
    STREAM_BYTES = 1024,     /* a third of what one step of SSE4.2's path takes */
    FOLD_BYTES = 256,        /* one step of VPCLMULQDQ's: four registers of four lanes */
    COPY_STEP_BYTES = 16384, /* twice this fits the first cache */
};

typedef uint32_t (*updater)(uint32_t crc, const uint8_t *p, size_t bytes);

static uint32_t table[8][256];        /* table[k][b]: byte b, followed by k zero bytes */
static uint32_t stream_shift[4][256]; /* byte i of a register, followed by STREAM_BYTES zeroes */
static updater update;
static pthread_once_t chosen = PTHREAD_ONCE_INIT;

static uint32_t update_table(uint32_t crc, const uint8_t *p, size_t bytes)
{
    for (; bytes >= 8; bytes -= 8, p += 8) {
        uint32_t low = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
                              (uint32_t)p[3] << 24);
        crc = table[7][low & 0xff] ^ table[6][low >> 8 & 0xff] ^ table[5][low >> 16 & 0xff] ^
              table[4][low >> 24] ^ table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^
              table[0][p[7]];
    }
    for (; bytes > 0; bytes--, p++)
        crc = crc >> 8 ^ table[0][(crc ^ *p) & 0xff];
    return crc;
}

static void fill_tables(void)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t crc = b;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
        table[0][b] = crc;
    }
    for (int k = 1; k < 8; k++)
        for (uint32_t b = 0; b < 256; b++)
            table[k][b] = table[k - 1][b] >> 8 ^ table[0][table[k - 1][b] & 0xff];
}

#if defined __x86_64__

static uint64_t load64(const uint8_t *p)
{
    uint64_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

static uint32_t shift_stream(uint32_t crc)
{
    return stream_shift[0][crc & 0xff] ^ stream_shift[1][crc >> 8 & 0xff] ^
           stream_shift[2][crc >> 16 & 0xff] ^ stream_shift[3][crc >> 24];
}

/* The instruction takes 3 cycles and can start each cycle: three streams keep it busy. */
__attribute__((target("sse4.2"))) static uint32_t update_sse42(uint32_t crc, const uint8_t *p,
                                                               size_t bytes)
{
    for (; bytes >= 3 * STREAM_BYTES; bytes -= 3 * STREAM_BYTES, p += 3 * STREAM_BYTES) {
        uint64_t a = crc, b = 0, c = 0;
        for (size_t i = 0; i < STREAM_BYTES; i += 8) {
            a = __builtin_ia32_crc32di(a, load64(p + i));
            b = __builtin_ia32_crc32di(b, load64(p + STREAM_BYTES + i));
            c = __builtin_ia32_crc32di(c, load64(p + 2 * STREAM_BYTES + i));
        }
        crc = shift_stream(shift_stream((uint32_t)a) ^ (uint32_t)b) ^ (uint32_t)c;
    }
    for (; bytes >= 8; bytes -= 8, p += 8)
        crc = (uint32_t)__builtin_ia32_crc32di(crc, load64(p));
    for (; bytes > 0; bytes--, p++)
        crc = __builtin_ia32_crc32qi(crc, *p);
    return crc;
}

static void fill_stream_shift(void)
{
    static const uint8_t zeroes[STREAM_BYTES];
    for (unsigned i = 0; i < 4; i++)
        for (uint32_t b = 0; b < 256; b++)
            stream_shift[i][b] = update_table(b << 8 * i, zeroes, sizeof zeroes);
}

/*
 * Folding. The bytes are one polynomial over GF(2), the first bit has the highest power. A lane of
 * 128 bits, low * x^64 + high, that lies D bits before another one counts there as
 *
 *     low * x^(D + 64) + high * x^D    modulo the polynomial P,
 *
 * so a product of 64 by 64 bits with x^(D + 64) mod P, another one with x^D mod P, and the other
 * lane are added (XOR), and the earlier lane is gone.
 *
 * Bits are reversed, as in the CRC: bit 0 of a lane is x^127. The product of two reversed factors of
 * 64 bits is the reversed product in 127 bits, which read as 128 has one x too many: the factors
 * are x^(D + 63) and x^(D - 1).
 */
static uint64_t fold[3][2]; /* [D = 2048, 512, 128][low, high] */

enum { FOLD_STEP, FOLD_REGISTER, FOLD_LANE };

/* x^power mod P, reversed in 64 bits. */
static uint64_t reversed_power(unsigned power)
{
    uint32_t remainder = 1u << 31; /* x^0 */
    for (; power > 0; power--)
        remainder = remainder >> 1 ^ (remainder & 1 ? POLYNOMIAL : 0);
    return (uint64_t)remainder << 32;
}

static void fill_fold(void)
{
    static const unsigned DISTANCES[] = {8 * FOLD_BYTES, 512, 128};
    for (unsigned i = 0; i < sizeof DISTANCES / sizeof *DISTANCES; i++) {
        fold[i][0] = reversed_power(DISTANCES[i] + 63);
        fold[i][1] = reversed_power(DISTANCES[i] - 1);
    }
}

#define FOLD_TARGET __attribute__((target("sse4.2,pclmul,vpclmulqdq,avx512f")))

FOLD_TARGET static __m512i fold_factor(int which)
{
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)fold[which]));
}

/* earlier, moved onto later, lane by lane. */
FOLD_TARGET static __m512i fold_onto(__m512i earlier, __m512i factor, __m512i later)
{
    enum { XOR_OF_THREE = 0x96 };
    return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(earlier, factor, 0x00),
                                     _mm512_clmulepi64_epi128(earlier, factor, 0x11), later,
                                     XOR_OF_THREE);
}

/* The CRC of the last lane, which stands for all bytes so far; the instruction does the rest. */
FOLD_TARGET static uint32_t reduce(__m512i lanes)
{
    const __m128i factor = _mm_loadu_si128((const __m128i *)(const void *)fold[FOLD_LANE]);
    __m128i sum = _mm512_castsi512_si128(lanes);
    const __m128i later[] = {_mm512_extracti32x4_epi32(lanes, 1),
                             _mm512_extracti32x4_epi32(lanes, 2),
                             _mm512_extracti32x4_epi32(lanes, 3)};
    for (unsigned i = 0; i < 3; i++)
        sum = _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(sum, factor, 0x00),
                                          _mm_clmulepi64_si128(sum, factor, 0x11)),
                            later[i]);
    uint64_t crc = _mm_crc32_u64(0, (uint64_t)_mm_extract_epi64(sum, 0));
    return (uint32_t)_mm_crc32_u64(crc, (uint64_t)_mm_extract_epi64(sum, 1));
}

FOLD_TARGET static uint32_t update_fold(uint32_t crc, const uint8_t *p, size_t bytes)
{
    if (bytes < 2 * FOLD_BYTES)
        return update_sse42(crc, p, bytes);
    __m512i lanes[4]; /* the CRC so far is added to the first four bytes */
    for (unsigned i = 0; i < 4; i++)
        lanes[i] = _mm512_loadu_si512(p + 64 * i);
    lanes[0] = _mm512_xor_si512(lanes[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)crc)));

    const __m512i step = fold_factor(FOLD_STEP), onto_next = fold_factor(FOLD_REGISTER);
    for (p += FOLD_BYTES, bytes -= FOLD_BYTES; bytes >= FOLD_BYTES;
         p += FOLD_BYTES, bytes -= FOLD_BYTES)
        for (unsigned i = 0; i < 4; i++)
            lanes[i] = fold_onto(lanes[i], step, _mm512_loadu_si512(p + 64 * i));
    for (unsigned i = 0; i < 3; i++)
        lanes[i + 1] = fold_onto(lanes[i], onto_next, lanes[i + 1]);
    return update_sse42(reduce(lanes[3]), p, bytes);
}

static bool has_sse42(void)
{
    return __builtin_cpu_supports("sse4.2");
}

static bool has_fold(void)
{
    return has_sse42() && __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("vpclmulqdq");
}

#endif

static bool has_tables(void)
{
    return true;
}

/* Slowest first. The names are those of KVFERRY_CPU. */
static const struct choice {
    const char *name;
    updater update;
    bool (*is_available)(void);
} CHOICES[] = {
    {"reference", update_table, has_tables},
#if defined __x86_64__
    {"avx2", update_sse42, has_sse42},
    {"avx512", update_fold, has_fold},
#endif
};

/* The fastest, up to the one named; an unknown name is for kernels_select to refuse. */
static updater choose_update(const char *name)
{
    updater best = update_table;
    for (size_t i = 0; i < sizeof CHOICES / sizeof *CHOICES; i++) {
        if (CHOICES[i].is_available())
            best = CHOICES[i].update;
        if (name && strcmp(name, CHOICES[i].name) == 0)
            break;
    }
    return best;
}

static void choose(void)
{
    fill_tables();
#if defined __x86_64__
    fill_stream_shift();
    fill_fold();
#endif
    update = choose_update(getenv("KVFERRY_CPU"));
}

uint32_t crc32c(uint32_t crc, const void *data, size_t bytes)
{
    pthread_once(&chosen, choose);
    return ~update(~crc, data, bytes);
}

uint32_t crc32c_copy(uint32_t crc, void *to, const void *from, size_t bytes)
{
    uint8_t *target = to;
    const uint8_t *source = from;
    while (bytes > 0) {
        size_t step = bytes < COPY_STEP_BYTES ? bytes : COPY_STEP_BYTES;
        crc = crc32c(crc, source, step);
        memcpy(target, source, step);
        source += step;
        target += step;
        bytes -= step;
    }
    return crc;
}
