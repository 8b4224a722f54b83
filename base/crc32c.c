#include "base/crc32c.h"

#include <pthread.h>
#include <string.h>

/* The polynomial, bits reversed. Registers below hold the CRC without the inversions at its ends.
 */
static const uint32_t POLYNOMIAL = 0x82f63b78;

enum { STREAM_BYTES = 1024 }; /* a third of what one step of the hardware path takes */

static uint32_t table[8][256];        /* table[k][b]: byte b, followed by k zero bytes */
static uint32_t stream_shift[4][256]; /* byte i of a register, followed by STREAM_BYTES zeroes */
static uint32_t (*update)(uint32_t crc, const uint8_t *p, size_t bytes);
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

#endif

static void choose(void)
{
    fill_tables();
    update = update_table;
#if defined __x86_64__
    if (__builtin_cpu_supports("sse4.2")) {
        fill_stream_shift();
        update = update_sse42;
    }
#endif
}

uint32_t crc32c(uint32_t crc, const void *data, size_t bytes)
{
    pthread_once(&chosen, choose);
    return ~update(~crc, data, bytes);
}
