/*
 * conform_warp - calls the collectives of a warp: shuffles, votes, reductions, matrices.
 */
#pragma once

#include "kernels/cuda/conform/conform_parameters.h"
#include "kernels/cuda/hardware.cuh"

/* 32 threads. in [32], out [20][32]: all lanes, then only the lanes of one half; bits of floats that are not NaN. */
DEVICE void conform_shuffles_body(const struct conform_parameters &p)
{
    const uint32_t lane = threadIdx.x, half = lane < 16 ? 0xffffu : 0xffff0000u;
    const uint32_t v = p.in[lane], other = (lane & 16) | (lane * 5 + 3) % 16;
    const float f = bits_float(v);
    uint32_t *out = p.out + lane, at = 0;
    out[32 * at++] = shuffle(v, lane * 7 + 3);
    out[32 * at++] = float_bits(shuffle(f, lane * 9 + 1));
    for (int m = 1; m < 32; m *= 2)
        out[32 * at++] = shuffle_xor(v, m);
    for (int m = 1; m < 32; m *= 2)
        out[32 * at++] = float_bits(shuffle_xor(f, m ^ 1));
    for (uint32_t n = 1; n < 32; n += 15)
        out[32 * at++] = shuffle_down(v, n);
    out[32 * at++] = float_bits(shuffle_down(f, 9));
    out[32 * at++] = shuffle(v, other, half);
    out[32 * at++] = float_bits(shuffle(f, other, half));
    out[32 * at++] = shuffle_xor(v, 9, half);
    out[32 * at++] = float_bits(shuffle_xor(f, 6, half));
}

/* 32 threads. in [32], out [16][32] */
DEVICE void conform_votes_body(const struct conform_parameters &p)
{
    const uint32_t lane = threadIdx.x, v = p.in[lane];
    uint32_t *out = p.out + lane, at = 0;
    for (uint32_t mask = ALL_LANES, i = 0; i < 2; i++) {
        out[32 * at++] = vote_ballot(v % 3 == 0, mask);
        out[32 * at++] = vote_any(v == p.in[0], mask);
        out[32 * at++] = vote_all(v != p.in[31], mask);
        out[32 * at++] = reduce_add(v, mask);
        out[32 * at++] = reduce_min(v, mask);
        out[32 * at++] = reduce_max(v, mask);
        out[32 * at++] = (uint32_t)reduce_min((int32_t)v, mask);
        out[32 * at++] = (uint32_t)reduce_max((int32_t)v, mask);
        mask = lane % 2 ? 0xaaaaaaaau : 0x55555555u;
    }
}

/* A warp a CTA. in [32][16], of a lane: a and b in BF16 (4, 2), in F16 (4, 2), c (4); out [32][8]: sums of BF16, of F16. */
DEVICE void conform_products_body(const struct conform_parameters &p)
{
    const uint32_t *in = p.in + (blockIdx.x * 32 + threadIdx.x) * 16;
    uint32_t *out = p.out + (blockIdx.x * 32 + threadIdx.x) * 8, a[4], half[4];
    float c[4], d[4];
    for (uint32_t i = 0; i < 4; i++) {
        a[i] = in[i];
        half[i] = in[6 + i];
        c[i] = d[i] = bits_float(in[12 + i]);
    }
    mma_bf16(c, a, in[4], in[5]);
    mma_f16(d, half, in[10], in[11]);
    for (uint32_t i = 0; i < 4; i++) {
        out[i] = float_bits(c[i]);
        out[4 + i] = float_bits(d[i]);
    }
}

/* A warp a CTA. in [32][11], of a lane: a (4), b (2), c (4), one word more; out [32][5]: sums, and that word's matrix
 * transposed. */
DEVICE void conform_integers_body(const struct conform_parameters &p)
{
    const uint32_t *in = p.in + (blockIdx.x * 32 + threadIdx.x) * 11;
    uint32_t *out = p.out + (blockIdx.x * 32 + threadIdx.x) * 5;
    const uint32_t a[4] = {in[0], in[1], in[2], in[3]};
    int32_t c[4];
    for (uint32_t i = 0; i < 4; i++)
        c[i] = (int32_t)in[6 + i];
    mma_int8(c, a, in[4], in[5]);
    for (uint32_t i = 0; i < 4; i++)
        out[i] = (uint32_t)c[i];
    out[4] = movmatrix(in[10]);
}
