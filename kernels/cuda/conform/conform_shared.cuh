/*
 * conform_shared - calls the wrappers for shared memory, asynchronous copies into it, and barriers.
 */
#pragma once

#include "kernels/cuda/conform/conform_parameters.h"
#include "kernels/cuda/hardware.cuh"

/* 64 threads. in [256], out [581]: the stored words; quadruples of them; marks of shared_add, its sum; addresses. */
DEVICE void conform_words_body(const struct conform_parameters &p)
{
    SHARED_MEMORY(shared);
    uint32_t *count = (uint32_t *)(shared + 2048);
    const uint32_t base = shared_address(shared), t = threadIdx.x;
    uint32_t r[4];
    for (uint32_t i = 0; i < 4; i++)
        store_shared(base + (t * 4 + i) * 7 % 256 * 4, p.in[t * 4 + i]);
    if (t == 0)
        *count = 0;
    cta_sync();
    for (uint32_t i = 0; i < 4; i++)
        p.out[t * 4 + i] = load_shared(base + (t * 4 + i) * 4);
    load_shared16(r, base + t * 16);
    store_shared16(base + 1024 + t * 5 % 64 * 16, r);
    cta_sync();
    for (uint32_t i = 0; i < 4; i++)
        p.out[256 + t * 4 + i] = load_shared(base + 1024 + (t * 4 + i) * 4);
    p.out[512 + shared_add(count, 1)] = 1;
    cta_sync();
    if (t < 5)
        p.out[576 + t] = t == 0 ? *count : shared_address(shared + 100 * t) - base;
}

/* 32 threads. in [32][4]: rows of 16 bytes; out [32][12]: for each lane x4, x4 transposed, x2, x2 transposed. */
DEVICE void conform_ldmatrix_body(const struct conform_parameters &p)
{
    SHARED_MEMORY(shared);
    const uint32_t base = shared_address(shared), lane = threadIdx.x;
    const uint32_t row[4] = {p.in[lane * 4], p.in[lane * 4 + 1], p.in[lane * 4 + 2],
                             p.in[lane * 4 + 3]};
    uint32_t four[4], two[2], *out = p.out + lane * 12;
    store_shared16(base + lane * 5 % 32 * 16, row);
    warp_sync();
    ldmatrix_x4(four, base + lane * 5 % 32 * 16);
    for (uint32_t i = 0; i < 4; i++)
        out[i] = four[i];
    ldmatrix_x4_trans(four, base + lane * 11 % 32 * 16);
    for (uint32_t i = 0; i < 4; i++)
        out[4 + i] = four[i];
    ldmatrix_x2(two, base + lane * 13 % 32 * 16);
    out[8] = two[0], out[9] = two[1];
    ldmatrix_x2_trans(two, base + lane * 3 % 32 * 16);
    out[10] = two[0], out[11] = two[1];
}

/*
 * 64 threads. in [3][64][4]; out the same: three groups of copies. A third of the copies is refused (not ok): they must leave
 * zeros, whatever was there and whatever the source has. A thread reads its own bytes of the first group, after warp_sync
 * those of another lane of the second, and after cta_sync those of another warp of the third.
 */
DEVICE void conform_copies_body(const struct conform_parameters &p)
{
    SHARED_MEMORY(shared);
    const uint32_t base = shared_address(shared), t = threadIdx.x;
    const uint32_t other[3] = {t, t ^ 1, t ^ 32};
    for (uint32_t g = 0; g < 3; g++) {
        const uint32_t at = g * 64 + t;
        const bool ok = at % 3 != 0;
        for (uint32_t i = 0; i < 4; i++)
            store_shared(base + at * 16 + i * 4, 0xdeadbeefu);
        cp_async16(base + at * 16, p.in + at * 4, ok);
        cp_async_commit();
    }
    for (uint32_t g = 0; g < 3; g++) {
        if (g == 0)
            cp_async_wait<2>();
        else if (g == 1)
            cp_async_wait<1>();
        else
            cp_async_wait<0>();
        if (g == 1)
            warp_sync();
        if (g == 2)
            cta_sync();
        for (uint32_t i = 0; i < 4; i++)
            p.out[(g * 64 + t) * 4 + i] = load_shared(base + (g * 64 + other[g]) * 16 + i * 4);
    }
}

/*
 * 64 threads. in [8][32], out [8][32], then [32]: one warp passes rows to the other through two named barriers: each warp waits
 * for one and arrives at the other; then each half of a warp does it alone.
 */
DEVICE void conform_barriers_body(const struct conform_parameters &p)
{
    SHARED_MEMORY(shared);
    const uint32_t base = shared_address(shared), lane = threadIdx.x % 32, t = threadIdx.x;
    for (uint32_t r = 0; r < 8; r++) {
        if (t < 32) {
            if (r > 0)
                barrier_sync<2, 64>();
            store_shared(base + lane * 4, p.in[r * 32 + lane]);
            barrier_arrive<1, 64>();
        } else {
            barrier_sync<1, 64>();
            p.out[r * 32 + lane] = load_shared(base + (31 - lane) * 4);
            if (r < 7)
                barrier_arrive<2, 64>();
        }
    }
    cta_sync();
    if (t < 32) {
        const uint32_t half = lane < 16 ? 0xffffu : 0xffff0000u;
        store_shared(base + lane * 4, p.in[lane] ^ lane);
        warp_sync(half);
        p.out[256 + lane] = load_shared(base + (lane ^ 9) * 4);
    }
}
