/*
 * digest - computes CRC32C (base/crc32c.h) of device memory.
 *
 * A CRC without its two inversions is linear: bytes are a polynomial over GF(2), and the CRC is this polynomial
 * times x^32 modulo P. So parts are computed independently, multiplied by the power of x for the number of bits after
 * them, and added (exclusive or), in any order. Zeros at the front change nothing, so the bytes are filled up to whole
 * pieces at the front. The first inversion is 32 ones, times the power of x for all bits.
 *
 *     piece [ROUNDS][256 threads] words; a thread takes every 256th word:  state = state x^(32 256) + word
 *
 * This is four look-ups in a table that the CTA makes. Bound: look-ups, about 4 a word; memory beyond some 100
 * processors. Oracle: base/crc32c.c, to the bit.
 */
#pragma once

#include "kernels/cuda/digest_parameters.h"
#include "kernels/cuda/hardware.cuh"

#define DIGEST_P      0x82f63b78u /* bit 31 - i is x^i */
#define DIGEST_ONE    0x80000000u
#define DIGEST_WORDS  (DIGEST_PIECE_BYTES / 4)
#define DIGEST_ROUNDS (DIGEST_WORDS / DIGEST_THREADS)

/* a b modulo P */
DEVICE uint32_t digest_multiply(uint32_t a, uint32_t b)
{
    uint32_t product = 0;
    for (uint32_t i = 0; i < 32; i++) {
        product ^= a & DIGEST_ONE >> i ? b : 0;
        b = b & 1 ? b >> 1 ^ DIGEST_P : b >> 1;
    }
    return product;
}

/* x^(8 n_bytes) modulo P */
DEVICE uint32_t digest_shift(uint64_t n_bytes)
{
    uint32_t power = DIGEST_ONE, square = DIGEST_ONE >> 8;
    for (; n_bytes > 0; n_bytes >>= 1) {
        if (n_bytes & 1)
            power = digest_multiply(power, square);
        square = digest_multiply(square, square);
    }
    return power;
}

/* The sum over all threads. shared: [8]. */
DEVICE uint32_t digest_sum(uint32_t v, uint32_t *shared)
{
    uint32_t sum = 0;
    for (int mask = 16; mask > 0; mask /= 2)
        v ^= shuffle_xor(v, mask);
    cta_sync();
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = v;
    cta_sync();
    for (uint32_t i = 0; i < blockDim.x / 32; i++)
        sum ^= shared[i];
    return sum;
}

/* Four bytes from `at` on; bytes below 0 are filling zeros. */
DEVICE uint32_t digest_word(const struct digest_parameters &p, int64_t at)
{
    uint32_t word = 0;
    if (at >= 0 && ((uintptr_t)(p.bytes + at) & 3) == 0)
        return *(const uint32_t *)(p.bytes + at);
    for (int i = 0; i < 4; i++)
        if (at + i >= 0)
            word |= (uint32_t)p.bytes[at + i] << (8 * i);
    return word;
}

DEVICE void digest_body(const struct digest_parameters &p)
{
    SHARED_MEMORY(shared);
    uint32_t *table = (uint32_t *)shared; /* [4][256] */
    const uint32_t step = digest_shift(4 * DIGEST_THREADS);
    const int64_t fill = (int64_t)p.n_pieces * DIGEST_PIECE_BYTES - (int64_t)p.n_bytes;
    const int64_t first = (int64_t)blockIdx.x * DIGEST_PIECE_BYTES - fill;
    for (uint32_t i = 0; i < 4; i++)
        table[i * 256 + threadIdx.x] = digest_multiply(threadIdx.x << (8 * i), step);
    cta_sync();
    uint32_t state = 0;
    for (uint32_t round = 0; round < DIGEST_ROUNDS; round++) {
        const uint32_t word = round * DIGEST_THREADS + threadIdx.x;
        state = table[state & 255] ^ table[256 + (state >> 8 & 255)] ^
                table[512 + (state >> 16 & 255)] ^ table[768 + (state >> 24)] ^
                digest_word(p, first + (int64_t)word * 4);
    }
    const uint32_t behind = digest_shift(4ull * (DIGEST_THREADS - threadIdx.x));
    const uint32_t part = digest_sum(digest_multiply(state, behind), table);
    if (threadIdx.x == 0)
        p.partials[blockIdx.x] = part;
}

/* A thread takes pieces thread, thread + 256, ..., counted from the last one. */
DEVICE void digest_combine_body(const struct digest_parameters &p)
{
    SHARED_MEMORY(shared);
    const uint32_t step = digest_shift((uint64_t)DIGEST_PIECE_BYTES * DIGEST_THREADS);
    uint32_t power = digest_shift((uint64_t)DIGEST_PIECE_BYTES * threadIdx.x), sum = 0;
    for (uint32_t i = threadIdx.x; i < p.n_pieces; i += DIGEST_THREADS) {
        sum ^= digest_multiply(power, p.partials[p.n_pieces - 1 - i]);
        power = digest_multiply(power, step);
    }
    sum = digest_sum(sum, (uint32_t *)shared);
    if (threadIdx.x == 0)
        *p.out = ~(sum ^ digest_multiply(0xffffffffu, digest_shift(p.n_bytes)));
}
