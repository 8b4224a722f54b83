/*
 * lanes_tile - one lane of a tile of tokens and a panel, and the addition of finished lanes.
 */
#pragma once

#include "kernels/cpu/products/lanes_tokens.h"

/* Lanes in the order in which the tree of vec_sum can add them one by one. */
static const uint8_t LANE_ORDER[LANES] = {0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15};

/* What a tile reads and keeps. */
struct lane_tile {
    const char *one;   /* numbers that are broadcast: that of m at one + m * one_stride */
    size_t one_stride; /* bytes; of gemm_batch */
    const float *side; /* [n_j][16], side by side in a vector */
    float *sums;       /* slot 0: [mr][16] */
    size_t sums_slot;  /* floats to the next slot */
    ptrdiff_t ahead;   /* bytes behind side, of what comes next; 0: nothing */
    uint32_t n_j;
    uint32_t number;        /* of the lane in the order */
    bool is_first, is_last; /* K block */
};

/* How a number that is broadcast lies in memory: BF16 is the low or the high half of a pair. */
enum lane_one { ONE_F32, ONE_BF16_LOW, ONE_BF16_HIGH };

INLINE vec lane_one_load(const enum lane_one kind, const char *one)
{
    float f;
    memcpy(&f, one, sizeof f); /* BF16 aligns it to nothing */
    __m256 v = _mm256_set1_ps(f);
    const __m256i pair = _mm256_castps_si256(v);
    if (kind == ONE_BF16_LOW)
        v = _mm256_castsi256_ps(_mm256_slli_epi32(pair, 16));
    else if (kind == ONE_BF16_HIGH)
        v = _mm256_castsi256_ps(_mm256_and_si256(pair, _mm256_set1_epi32((int)0xffff0000u)));
    return (vec){v, v};
}

/* acc[m] += one[j][m] * side[j] for all j. Asks for what lies ahead bytes behind side. Pointers walk: with an index the compiler
 * keeps sums on the stack. */
INLINE void lane_run(const uint32_t mr, const enum lane_one kind, size_t step, size_t stride,
                     const struct lane_tile *tile, vec *acc)
{
    const ptrdiff_t ahead = tile->ahead;
    const char *one = tile->one;
    const float *side = tile->side;
#pragma GCC unroll 2
    for (const float *end = side + (size_t)tile->n_j * LANES; side != end;
         side += LANES, one += step) {
        const vec v = vec_load(side);
        if (ahead)
            _mm_prefetch((const char *)side + ahead, _MM_HINT_T0);
        UNROLL
        for (uint32_t m = 0; m < mr; m++)
            acc[m] = vec_fma(lane_one_load(kind, one + m * stride), v, acc[m]);
    }
}

INLINE void sums_add(const uint32_t mr, const float *sums, vec *acc)
{
    UNROLL
    for (uint32_t m = 0; m < mr; m++)
        acc[m] = vec_add(vec_load(sums + m * LANES), acc[m]);
}

INLINE void sums_store(const uint32_t mr, const vec *acc, float *sums)
{
    UNROLL
    for (uint32_t m = 0; m < mr; m++)
        vec_store(sums + m * LANES, acc[m]);
}

/* mr numbers of each step, step bytes apart. */
INLINE void lane_tile_run(const uint32_t mr, const enum lane_one kind, size_t step, size_t stride,
                          const struct lane_tile *tile)
{
    const uint32_t number = tile->number;
    const size_t slot_floats = tile->sums_slot;
    const bool is_first = tile->is_first, is_last = tile->is_last;
    float *sums = tile->sums;
    vec acc[LANES_MR];
    uint32_t n = 0;
    UNROLL
    for (uint32_t m = 0; m < mr; m++)
        acc[m] = vec_zero();
    if (!is_first) {
        UNROLL
        for (uint32_t m = 0; m < mr; m++)
            acc[m] = vec_load(sums + number * slot_floats + m * LANES);
    }
    lane_run(mr, kind, step, stride, tile, acc);
    if (!is_last)
        sums_store(mr, acc, sums + number * slot_floats);
    else if (is_first) {
        /* As the tree of the lanes: n sums after a number with n ones at its end. */
        for (; number >> n & 1; n++, sums += slot_floats)
            sums_add(mr, sums, acc);
        sums_store(mr, acc, sums);
    } else {
        for (; number >> n & 1; n++)
            sums_add(mr, sums + (number - (1u << n)) * slot_floats, acc);
        sums_store(mr, acc, sums + number * slot_floats);
    }
}

/* After the last lane: the sums of all. */
INLINE const float *lane_total(const struct lane_tile *tile)
{
    return tile->sums + tile->sums_slot * (tile->is_first ? 4 : LANES - 1);
}
