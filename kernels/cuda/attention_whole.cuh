/*
 * attention_whole - contexts with all scores of a row stored (A3): in shared memory, up to ATTENTION_SHORT_KEYS keys, or in
 * the workspace, any number.
 *
 * A row's scores are made, then its largest is found, then all weights, and then they and V are summed once, in the order of
 * the keys: nothing is weighed again, and nothing else has a part in a row's bits. They are the same wherever scores live.
 *
 * A CTA takes a quarter of the rows of a tile of attention_masked at a time, a warp a row, and walks by the grid over what
 * the contexts have: the workspace has room for the CTAs of a launch, not for the rows of a step.
 *
 *     shared    queries [ATTENTION_WHOLE_ROWS][head_dim], a tile of keys as in attention_masked, scores where they are short
 *
 * Bound: loads of the cache. Oracle: kernels/reference/attention_row.c.
 */
#pragma once

#include "kernels/cuda/attention_masked.cuh"

#define WHOLE_ELEMENTS 8u /* of a lane: heads of up to 256 */
#define WHOLE_PARTS    (ATTENTION_TILE_ROWS / ATTENTION_WHOLE_ROWS)

static_assert(ATTENTION_WHOLE_ROWS == MASKED_WARPS, "a warp a row");

/* The rows that the CTA takes at its turn `item`. n_rows 0: that quarter of the tile has none. */
DEVICE struct masked_tile whole_rows_of(const struct attention_parameters &p, uint64_t item,
                                        float *memory)
{
    const uint64_t of_heads = item / WHOLE_PARTS, n_parts = p.n_parts * p.n_kv_heads;
    struct masked_tile t = masked_tile_of<WHOLE_ELEMENTS>(p, (uint32_t)(of_heads / n_parts),
                                                          (uint32_t)(of_heads % n_parts), memory);
    t.first_row = (uint32_t)(item % WHOLE_PARTS) * ATTENTION_WHOLE_ROWS;
    const uint32_t n_left = t.first_row < t.n_rows ? t.n_rows - t.first_row : 0;
    t.n_rows = n_left < ATTENTION_WHOLE_ROWS ? n_left : ATTENTION_WHOLE_ROWS;
    t.keys = t.queries + ATTENTION_WHOLE_ROWS * p.head_dim;
    t.weights = t.keys + ATTENTION_TILE_KEYS * (MASKED_CHUNK(WHOLE_ELEMENTS) + 1);
    return t;
}

/* Of the warp's row, from the first key in sight on. */
template <bool IS_SHORT>
DEVICE float *scores_of(const struct attention_parameters &p, const struct masked_tile &t)
{
    const uint64_t warp = threadIdx.x / WARP;
    if (IS_SHORT)
        return t.weights + warp * ATTENTION_SHORT_KEYS;
    return p.scores + (blockIdx.x * (uint64_t)ATTENTION_WHOLE_ROWS + warp) * p.score_stride;
}

/* -inf where the row does not see a key, up to the end of the last tile. */
DEVICE void store_scores(const struct attention_parameters &p, const struct masked_tile &t,
                         const struct key_range &keys, float *scores)
{
    constexpr uint32_t N = WHOLE_ELEMENTS;
    const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    for (uint32_t first = keys.begin; first < keys.end; first += ATTENTION_TILE_KEYS) {
        float dots[1][4] = {};
        for (uint32_t from = 0; from < p.head_dim; from += MASKED_CHUNK(N)) {
            load_keys<N, false>(p, t, first, from, false, 0);
            cta_sync();
            dot_chunk<N>(p, t, from, dots);
            cta_sync();
        }
        const float dot = (dots[0][0] + dots[0][1]) + (dots[0][2] + dots[0][3]);
        if (warp < t.n_rows)
            scores[first - keys.begin + lane] = score_of(p, t, warp, first + lane, dot);
    }
}

/* The scores of the warp's row become weights; a lane has every thirty-second. */
DEVICE void weigh_scores(const struct attention_parameters &p, const struct masked_tile &t,
                         const struct key_range &keys, float *scores,
                         struct row_sums<WHOLE_ELEMENTS> &sums)
{
    const uint32_t lane = threadIdx.x % WARP, n = keys.end - keys.begin;
    const uint32_t head = masked_row(p, t, threadIdx.x / WARP).head;
    const float sink = p.sinks ? p.sinks[head] : -INFINITY;
    float largest = sink;
    for (uint32_t first = 0; first < n; first += WARP)
        largest = fmaxf(largest, scores[first + lane]);
    for (int mask = 16; mask > 0; mask /= 2)
        largest = fmaxf(largest, shuffle_xor(largest, mask));
    sums.m = m_of(t.math, largest);
    sums.total = sink == -INFINITY ? 0 : weight_of(t.math, sink, sums.m);
    for (uint32_t first = 0; first < n; first += WARP) {
        const float score = scores[first + lane];
        scores[first + lane] = score == -INFINITY ? 0 : weight_of(t.math, score, sums.m);
    }
}

DEVICE void add_values(const struct attention_parameters &p, const struct masked_tile &t,
                       const struct key_range &keys, float *weights,
                       struct row_sums<WHOLE_ELEMENTS> &sums)
{
    constexpr uint32_t N = WHOLE_ELEMENTS;
    struct masked_tile of_row = t;
    for (uint32_t first = keys.begin; first < keys.end; first += ATTENTION_TILE_KEYS) {
        of_row.weights = weights + (first - keys.begin);
        for (uint32_t from = 0, chunk = 0; from < p.head_dim; from += MASKED_CHUNK(N), chunk++) {
            load_keys<N, false>(p, t, first, from, true, 0);
            cta_sync();
            if (threadIdx.x / WARP < t.n_rows)
                add_chunk<N>(of_row, 0, chunk, sums);
            cta_sync();
        }
    }
}

template <bool IS_SHORT>
DEVICE void attend_whole(const struct attention_parameters &p, const struct masked_tile &t)
{
    const bool has_row = threadIdx.x / WARP < t.n_rows;
    struct row_sums<WHOLE_ELEMENTS> sums;
    clear_sums(sums);
    if (t.sequence->kind != SEQUENCE_IS_DUMMY) {
        struct key_range keys = keys_in_sight(p, *t.sequence, masked_row(p, t, 0),
                                              masked_row(p, t, t.n_rows - 1));
        /* A window may begin behind the keys of a rank. */
        keys.end = keys.begin < keys.end ? keys.end : keys.begin;
        float *scores = scores_of<IS_SHORT>(p, t);
        load_queries(p, t);
        store_scores(p, t, keys, scores);
        if (has_row)
            weigh_scores(p, t, keys, scores, sums);
        add_values(p, t, keys, scores, sums);
    }
    if (has_row)
        store_row(p, t.math, masked_row(p, t, threadIdx.x / WARP), sums);
}

/* Grid: x as many CTAs as run at once. */
template <bool IS_SHORT> DEVICE void attention_whole_body(const struct attention_parameters &p)
{
    SHARED_MEMORY(memory);
    const uint64_t n = (uint64_t)p.n_context_tiles * p.n_parts * p.n_kv_heads * WHOLE_PARTS;
    for (uint64_t item = blockIdx.x; item < n; item += gridDim.x) {
        const struct masked_tile t = whole_rows_of(p, item, (float *)memory);
        if (t.n_rows != 0)
            attend_whole<IS_SHORT>(p, t);
    }
}
