/*
 * conform_sm90 - calls barriers in shared memory, loads of boxes of a tensor by the copy engine, products of four warps.
 */
#pragma once

#include "kernels/cuda/conform/conform_parameters.h"
#include "kernels/cuda/hardware_sm90.cuh"

/*
 * 64 threads. in [16], out [8][32], then [32]: one warp passes numbers to the other through one word, eight times: the first waits
 * until the word is empty, the second until it is full.
 */
DEVICE void conform_phases_body(const struct conform_parameters &p)
{
    SHARED_MEMORY(shared);
    const uint32_t base = shared_address(shared), full = base + 64, empty = base + 72;
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (threadIdx.x == 0) {
        mbarrier_init(full, 32);
        mbarrier_init(empty, 32);
        mbarrier_publish();
    }
    cta_sync();
    for (uint32_t r = 0; r < 8; r++) {
        if (warp == 0) {
            mbarrier_wait(empty, (r & 1) ^ 1);
            if (lane == r)
                store_shared(base, p.in[r]);
            warp_sync();
            mbarrier_arrive(full);
        } else {
            mbarrier_wait(full, r & 1);
            p.out[r * 32 + lane] = load_shared(base) + lane;
            warp_sync();
            mbarrier_arrive(empty);
        }
    }
    cta_sync();
    if (warp == 1)
        p.out[8 * 32 + lane] = p.in[8] ^ lane;
}

/*
 * 32 threads. in: a tensor map [32 words], then the tensor [3][2][8][64] of 16 bits; boxes of 4 x 64 at six places, some of them
 * partly or completely outside; out [6][128]: the boxes as in shared memory.
 */
DEVICE void conform_boxes_body(const struct conform_parameters &p)
{
    SHARED_MEMORY(shared);
    const uint32_t base = shared_address(shared), barrier = base + 6 * 1024, lane = threadIdx.x;
    const struct tensor_map *map = (const struct tensor_map *)(const void *)p.in;
    /* The old contents must be overwritten, by the engine, too. */
    for (uint32_t i = lane; i < 6 * 256; i += 32)
        store_shared(base + i * 4, 0xdeadbeefu);
    publish_smem_to_async();
    if (lane == 0) {
        mbarrier_init(barrier, 1);
        mbarrier_publish();
    }
    warp_sync();
    if (lane == 0) {
        mbarrier_expect(barrier, 6 * 512);
        for (int32_t b = 0; b < 6; b++) {
            const int32_t at[4] = {b == 5 ? 32 : 0, b * 3 % 8 - (b == 2 ? 8 : 0), b & 1,
                                   b == 4 ? 3 : b % 3};
            tensor_load(base + (uint32_t)b * 1024, map, barrier, at);
        }
    }
    warp_sync();
    mbarrier_wait(barrier, 0);
    for (uint32_t b = 0; b < 6; b++)
        for (uint32_t i = lane; i < 128; i += 32)
            p.out[b * 128 + i] = load_shared(base + b * 1024 + i * 4);
}

DEVICE uint32_t conform_swizzled(uint32_t address)
{
    return address ^ (address >> 7 & 7) << 4;
}

/*
 * 128 threads. in, pairs of bf16: A [64][32], B [128][32], V [64][64], then 16 words a thread of P, as mma_bf16 has a; out, of a thread: 64
 * sums of A B, added to 64 of A B before them, and 64 of P V.
 */
DEVICE void conform_fours_body(const struct conform_parameters &p)
{
    SHARED_MEMORY(shared);
    const uint32_t of_a = shared_address(shared), of_b = of_a + 64 * 128, of_v = of_b + 128 * 128;
    const uint32_t t = threadIdx.x;
    float sums[64], others[64];
    uint32_t probabilities[4][4];
    for (uint32_t i = t; i < 192 * 32; i += 128) /* A, and B behind it */
        store_shared(conform_swizzled(of_a + i * 4), p.in[i]);
    for (uint32_t i = t; i < 64 * 64; i += 128) /* panels of 64 columns */
        store_shared(conform_swizzled(of_v + i % 64 / 32 * (64 * 128) + i / 64 * 128 + i % 32 * 4),
                     p.in[192 * 32 + i]);
    for (uint32_t i = 0; i < 16; i++)
        probabilities[i / 4][i % 4] = p.in[320 * 32 + t * 16 + i];
    publish_smem_to_async();
    cta_sync();
    wgmma_begin();
    UNROLL
    for (uint32_t k = 0; k < 8; k++)
        wgmma_shared(sums, wgmma_operand(of_a + k % 4 * 32, 16, 1024),
                     wgmma_operand(of_b + k % 4 * 32, 16, 1024), k > 0);
    wgmma_commit();
    UNROLL
    for (uint32_t k = 0; k < 4; k++)
        wgmma_registers(others, probabilities[k],
                        wgmma_operand(of_v + k * 16 * 128, 64 * 128, 1024), k > 0);
    wgmma_commit();
    wgmma_wait<1>();
    wgmma_keep(sums);
    UNROLL
    for (uint32_t i = 0; i < 64; i++)
        p.out[t * 128 + i] = float_bits(sums[i]);
    wgmma_wait<0>();
    wgmma_keep(others);
    UNROLL
    for (uint32_t i = 0; i < 64; i++)
        p.out[t * 128 + 64 + i] = float_bits(others[i]);
}

/*
 * 128 threads. in, pairs of bf16: A [64][32], B [256][32]; out, of a thread: 32 sums of A and the first 64 of B, 128 of A and all of B.
 */
DEVICE void conform_widths_body(const struct conform_parameters &p)
{
    SHARED_MEMORY(shared);
    const uint32_t of_a = shared_address(shared), of_b = of_a + 64 * 128, t = threadIdx.x;
    float narrow[32], wide[128];
    for (uint32_t i = t; i < 320 * 32; i += 128) /* A, and B behind it */
        store_shared(conform_swizzled(of_a + i * 4), p.in[i]);
    publish_smem_to_async();
    cta_sync();
    wgmma_begin();
    UNROLL
    for (uint32_t k = 0; k < 4; k++) {
        const uint64_t a = wgmma_operand(of_a + k * 32, 16, 1024);
        const uint64_t b = wgmma_operand(of_b + k * 32, 16, 1024);
        wgmma_shared(narrow, a, b, k > 0);
        wgmma_shared(wide, a, b, k > 0);
    }
    wgmma_commit();
    wgmma_wait<0>();
    wgmma_keep(narrow);
    wgmma_keep(wide);
    UNROLL
    for (uint32_t i = 0; i < 32; i++)
        p.out[t * 160 + i] = float_bits(narrow[i]);
    UNROLL
    for (uint32_t i = 0; i < 128; i++)
        p.out[t * 160 + 32 + i] = float_bits(wide[i]);
}

/*
 * 384 threads. in, pairs of bf16: B [64][32], then 16 words a thread of the first 256 of A, as mma_bf16 has a; out, of such a thread: 32
 * sums of A B. Four warps give registers back, the others take them.
 */
DEVICE void conform_narrow_body(const struct conform_parameters &p)
{
    SHARED_MEMORY(shared);
    const uint32_t of_b = shared_address(shared), t = threadIdx.x - 128;
    if (threadIdx.x < 128) {
        registers_give<72>();
        for (uint32_t i = threadIdx.x; i < 64 * 32; i += 128)
            store_shared(conform_swizzled(of_b + i * 4), p.in[i]);
        publish_smem_to_async();
        barrier_arrive<1, 384>();
    } else {
        float sums[32];
        uint32_t a[4][4];
        registers_take<216>();
        UNROLL
        for (uint32_t i = 0; i < 16; i++)
            a[i / 4][i % 4] = p.in[64 * 32 + t * 16 + i];
        barrier_sync<1, 384>();
        wgmma_begin();
        UNROLL
        for (uint32_t k = 0; k < 4; k++)
            wgmma_narrow(sums, a[k], wgmma_operand(of_b + k * 32, 16, 1024), k > 0);
        wgmma_commit();
        wgmma_wait<0>();
        wgmma_keep(sums);
        UNROLL
        for (uint32_t i = 0; i < 32; i++)
            p.out[t * 32 + i] = float_bits(sums[i]);
    }
}
