/*
 * lanes_tile - one lane of a tile of tokens and a panel, and the addition of finished lanes.
 */
#pragma once

#include "kernels/cpu/products/lanes_tokens.h"

/* What a tile reads and keeps. */
struct lane_tile {
    const float *x;   /* [n_j][mr] */
    const float *w;   /* [n_j][16] */
    float *sums;      /* slot 0: [mr][16] */
    size_t sums_slot; /* floats to the next slot */
    uint32_t n_j;
    uint32_t number;        /* of the lane in the order */
    bool is_first, is_last; /* K block */
};

INLINE void lane_step(const uint32_t mr, const struct lane_tile *tile, uint32_t j, vec *acc)
{
    const vec w = vec_load(tile->w + (size_t)j * LANES);
    UNROLL
    for (uint32_t m = 0; m < mr; m++)
        acc[m] = vec_fma(vec_set(tile->x[(size_t)j * mr + m]), w, acc[m]);
}

/* The place of the sum of token m. */
INLINE float *lane_sum(const struct lane_tile *tile, uint32_t slot, uint32_t m)
{
    return tile->sums + slot * tile->sums_slot + (size_t)m * LANES;
}

/* Where the sum of lane `number` stays. With one K block a sum of 2^n lanes has slot n. With several every lane has one of its own,
 * where also the sum of the lanes up to it stays. */
INLINE uint32_t lane_slot(const struct lane_tile *tile, uint32_t number, uint32_t n)
{
    return tile->is_first && tile->is_last ? n : number;
}

/* Adds what the tree of the lanes adds after this one: n sums after a number with n ones at its end. Returns n. */
INLINE uint32_t lane_add_finished(const uint32_t mr, const struct lane_tile *tile, vec *acc)
{
    uint32_t n = 0;
    for (; tile->number >> n & 1; n++) {
        const uint32_t slot = lane_slot(tile, tile->number - (1u << n), n);
        UNROLL
        for (uint32_t m = 0; m < mr; m++)
            acc[m] = vec_add(vec_load(lane_sum(tile, slot, m)), acc[m]);
    }
    return n;
}

/* mr tokens. */
INLINE void lane_tile_run(const uint32_t mr, const struct lane_tile *tile)
{
    vec acc[LANES_MR];
    uint32_t j = 0, n = 0;
    UNROLL
    for (uint32_t m = 0; m < mr; m++)
        acc[m] = vec_zero();
    if (!tile->is_first) {
        UNROLL
        for (uint32_t m = 0; m < mr; m++)
            acc[m] = vec_load(lane_sum(tile, tile->number, m));
    }
    for (; j + 4 <= tile->n_j; j += 4) {
        UNROLL
        for (uint32_t i = 0; i < 4; i++)
            lane_step(mr, tile, j + i, acc);
    }
    for (; j < tile->n_j; j++)
        lane_step(mr, tile, j, acc);
    if (tile->is_last)
        n = lane_add_finished(mr, tile, acc);
    const uint32_t slot = lane_slot(tile, tile->number, n);
    UNROLL
    for (uint32_t m = 0; m < mr; m++)
        vec_store(lane_sum(tile, slot, m), acc[m]);
}
