/*
 * conform_global - calls the wrappers for global memory: vectors, atomic operations, messages between CTAs.
 */
#pragma once

#include "kernels/cuda/conform/conform_parameters.h"
#include "kernels/cuda/hardware.cuh"

/* 32 threads. in [32][8], out [32][8] */
DEVICE void conform_vectors_body(const struct conform_parameters &p)
{
    const uint32_t lane = threadIdx.x, *in = p.in + lane * 8;
    uint32_t four[4], two[2], *out = p.out + (lane * 3 + 1) % 32 * 8;
    load_vector16(four, in);
    load_vector8(two, in + 4);
    store_vector16(out + 4, four);
    store_vector8(out, two);
    store_word(out + 2, in[6]);
    store_word(out + 3, in[7]);
}

/* Each thread has its own word: out has what each operation returns, and what it leaves. */
DEVICE void conform_own_words(const uint32_t *in, uint32_t *own)
{
    uint64_t *wide = (uint64_t *)(void *)(own + 4);
    own[8] = atomic_add(own, in[0]);
    own[9] = atomic_max(own, in[1]);
    own[10] = atomic_exchange(own, in[2]);
    own[11] = atomic_compare(own, in[2] ^ (in[0] & 1), in[3]);
    own[12] = (uint32_t)atomic_max((int32_t *)(own + 1), (int32_t)in[0]);
    own[13] = (uint32_t)atomic_max((int32_t *)(own + 1), (int32_t)in[1]);
    own[14] = (uint32_t)(atomic_add(wide, (uint64_t)in[1] << 32 | in[0]) >> 32);
    own[15] = (uint32_t)(atomic_compare(wide, (uint64_t)in[1] << 32 | in[0],
                                        (uint64_t)in[2] << 32) >>
                         32);
}

/*
 * 4 CTAs of 64 threads. in [256][4]; out, zeros before: shared words [16], [256][16] own words, then marks: [256] of each of
 * five operations that go through all of 0 .. 255, in any order. All threads use the same words.
 */
DEVICE void conform_atomics_body(const struct conform_parameters &p)
{
    const uint32_t id = blockIdx.x * blockDim.x + threadIdx.x, all = 256, *in = p.in + id * 4;
    const uint64_t one = 0x100000001ull;
    uint32_t *out = p.out, *marks = out + 16 + all * 16;
    uint64_t *sum = (uint64_t *)(void *)(out + 2), *count = (uint64_t *)(void *)(out + 4), seen = 0;
    uint32_t expected = 0, found;
    conform_own_words(in, out + 16 + id * 16);
    marks[atomic_add(out, 1)] = 1;
    marks[all + (uint32_t)(atomic_add(sum, one) >> 32)] = 1;
    while ((found = atomic_compare(out + 1, expected, expected + 1)) != expected)
        expected = found;
    marks[2 * all + found] = 1;
    for (uint64_t before = 0; (seen = atomic_compare(count, before, before + one)) != before;)
        before = seen;
    marks[3 * all + (uint32_t)(seen >> 32)] = 1;
    (void)atomic_max(out + 6, in[0]);
    (void)atomic_max((int32_t *)(out + 7), (int32_t)in[1]);
    /* A thread finds the number of the thread before. The number of the last thread is found at the end. */
    if ((found = atomic_exchange(out + 8, id + 1)) > 0)
        marks[4 * all + found - 1] = 1;
    fence_device();
    if (atomic_add(out + 9, 1) == all - 1) {
        fence_device();
        marks[4 * all + atomic_exchange(out + 8, 0) - 1] = 1;
    }
}

/*
 * Any even number of CTAs of 32 threads. in [pairs][32]; out [pairs][32], then [1 + pairs] words that are zeros before: a CTA
 * that comes first writes a row and announces it; the CTA after it waits for that and reads the row.
 */
DEVICE void conform_passing_body(const struct conform_parameters &p)
{
    const uint32_t pairs = gridDim.x / 2, lane = threadIdx.x;
    uint32_t *words = p.out + 2 * pairs * 32, *row;
    uint32_t turn = lane == 0 ? atomic_add(words, 1) : 0;
    turn = shuffle(turn, 0);
    row = p.out + turn / 2 * 64;
    if (turn % 2 == 0) {
        row[lane] = p.in[turn / 2 * 32 + lane];
        warp_sync();
        if (lane == 0) {
            fence_device();
            store_release(words + 1 + turn / 2, turn + 1);
        }
    } else {
        while (lane == 0 && load_acquire(words + 1 + turn / 2) != turn)
            ;
        if (lane == 0)
            fence_device();
        warp_sync();
        row[32 + lane] = ~row[31 - lane];
    }
}
