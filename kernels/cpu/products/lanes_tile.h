/*
 * lanes_tile - one lane of a tile of tokens and panels, and the addition of finished lanes.
 */
#pragma once

#include "kernels/cpu/products/lanes_tokens.h"

enum {
    LANES_NP = 1
}; /* panels of a tile: 12 of 16 registers are sums, 2 weights, 1 an element of x */

/* What a tile reads and keeps. */
struct lane_tile {
    const float *x;                /* [n_j][mr] */
    const float *w;                /* [n_j][16], of its first panel */
    size_t w_stride;               /* floats to the next panel */
    float *sums;                   /* slot 0 of its first panel: [mr][16] */
    size_t sums_stride, sums_slot; /* floats to the next panel, to the next slot */
    uint32_t n_j;
    uint32_t number;        /* of the lane in the order */
    bool is_first, is_last; /* K block */
};

INLINE void lane_step(const uint32_t mr, const uint32_t np, const struct lane_tile *tile,
                      uint32_t j, vec *acc)
{
    vec w[LANES_NP];
    UNROLL
    for (uint32_t p = 0; p < np; p++)
        w[p] = vec_load(tile->w + p * tile->w_stride + (size_t)j * LANES);
    UNROLL
    for (uint32_t m = 0; m < mr; m++) {
        const vec x = vec_set(tile->x[(size_t)j * mr + m]);
        UNROLL
        for (uint32_t p = 0; p < np; p++)
            acc[m * np + p] = vec_fma(x, w[p], acc[m * np + p]);
    }
}

/* The place of sum m of panel p. */
INLINE float *lane_sum(const struct lane_tile *tile, uint32_t slot, uint32_t m, uint32_t p)
{
    return tile->sums + slot * tile->sums_slot + p * tile->sums_stride + (size_t)m * LANES;
}

/* Where the sum of lane `number` stays. With one K block a sum of 2^n lanes has slot n. With several every lane has one of its own,
 * where also the sum of the lanes up to it stays. */
INLINE uint32_t lane_slot(const struct lane_tile *tile, uint32_t number, uint32_t n)
{
    return tile->is_first && tile->is_last ? n : number;
}

/* Adds what the tree of the lanes adds after this one: n sums after a number with n ones at its end. Returns n. */
INLINE uint32_t lane_add_finished(const uint32_t mr, const uint32_t np,
                                  const struct lane_tile *tile, vec *acc)
{
    uint32_t n = 0;
    for (; tile->number >> n & 1; n++) {
        const uint32_t slot = lane_slot(tile, tile->number - (1u << n), n);
        UNROLL
        for (uint32_t i = 0; i < mr * np; i++)
            acc[i] = vec_add(vec_load(lane_sum(tile, slot, i / np, i % np)), acc[i]);
    }
    return n;
}

/* mr tokens x np panels. */
INLINE void lane_tile_run(const uint32_t mr, const uint32_t np, const struct lane_tile *tile)
{
    vec acc[LANES_MR * LANES_NP];
    uint32_t j = 0, n = 0;
    UNROLL
    for (uint32_t i = 0; i < mr * np; i++)
        acc[i] = vec_zero();
    if (!tile->is_first) {
        UNROLL
        for (uint32_t i = 0; i < mr * np; i++)
            acc[i] = vec_load(lane_sum(tile, tile->number, i / np, i % np));
    }
    for (; j + 4 <= tile->n_j; j += 4) {
        UNROLL
        for (uint32_t i = 0; i < 4; i++)
            lane_step(mr, np, tile, j + i, acc);
    }
    for (; j < tile->n_j; j++)
        lane_step(mr, np, tile, j, acc);
    if (tile->is_last)
        n = lane_add_finished(mr, np, tile, acc);
    const uint32_t slot = lane_slot(tile, tile->number, n);
    UNROLL
    for (uint32_t i = 0; i < mr * np; i++)
        vec_store(lane_sum(tile, slot, i / np, i % np), acc[i]);
}
