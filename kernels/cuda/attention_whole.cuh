/*
 * attention_whole - computes contexts with all scores of a row stored (A3): in shared memory, up to ATTENTION_SHORT_KEYS keys,
 * or in the workspace, any number.
 *
 * First all scores of a row are computed, then the largest, then all weights. Then weights and V are summed once, in the order
 * of the keys: no sum is scaled later, and the bits of a row depend on nothing else. They are the same in both places.
 *
 * A CTA takes a quarter of the rows of a tile of attention_masked at a time, one warp a row, and loops with the stride of the
 * grid: the workspace has room for the CTAs of a launch, not for all rows of a step.
 *
 *     shared    queries [ATTENTION_WHOLE_ROWS][head_dim], keys [ATTENTION_TILE_KEYS][WHOLE_CHUNK + 1], scores if they are short
 *
 * Bound: loads of the cache. Oracle: kernels/reference/attention_row.c.
 */
#pragma once

#include "kernels/cuda/attention_masked.cuh"

#define WHOLE_ELEMENTS 8u   /* of a lane: heads of up to 256 */
#define WHOLE_CHUNK    128u /* elements of a head that are in shared memory at a time */
#define WHOLE_PARTS    (ATTENTION_TILE_ROWS / ATTENTION_WHOLE_ROWS)

static_assert(ATTENTION_WHOLE_ROWS == MASKED_WARPS, "a warp a row");

/* The rows that the CTA takes in turn `item`. n_rows 0: this quarter of the tile has no rows. */
DEVICE struct masked_tile whole_rows_of(const struct attention_parameters &p, uint64_t item,
                                        float *memory)
{
    const uint64_t of_heads = item / WHOLE_PARTS, n_parts = p.n_parts * p.n_kv_heads;
    struct masked_tile t = masked_tile_of(p, (uint32_t)(of_heads / n_parts),
                                          (uint32_t)(of_heads % n_parts));
    t.first_row = (uint32_t)(item % WHOLE_PARTS) * ATTENTION_WHOLE_ROWS;
    const uint32_t n_left = t.first_row < t.n_rows ? t.n_rows - t.first_row : 0;
    t.n_rows = n_left < ATTENTION_WHOLE_ROWS ? n_left : ATTENTION_WHOLE_ROWS;
    t.queries = memory;
    t.keys = t.queries + ATTENTION_WHOLE_ROWS * p.head_dim;
    t.weights = t.keys + ATTENTION_TILE_KEYS * (WHOLE_CHUNK + 1);
    return t;
}

DEVICE void load_whole_queries(const struct attention_parameters &p, const struct masked_tile &t)
{
    for (uint32_t i = threadIdx.x; i < t.n_rows * p.head_dim; i += blockDim.x) {
        const struct row row = masked_row(p, t, i / p.head_dim);
        const uint64_t at = (uint64_t)row.token * p.n_heads + row.head;
        t.queries[i] = p.queries[at * p.head_dim + i % p.head_dim];
    }
}

/* Loads elements of K or V of a tile, from `from` on: a warp a key, with zeros after the last element. */
DEVICE void load_whole_keys(const struct attention_parameters &p, const struct masked_tile &t,
                            uint32_t first, uint32_t from, bool is_v)
{
    const struct cuda_sequence &s = *t.sequence;
    const uint32_t lane = threadIdx.x % WARP, query = p.indices[t.tile.first_token];
    for (uint32_t j = threadIdx.x / WARP; j < ATTENTION_TILE_KEYS; j += MASKED_WARPS) {
        const bool is_there = first + j < s.kv_len;
        struct key_place place = {nullptr, 0};
        if (is_there)
            place = find_key(p, s, t.tile.beam, t.kv_head, first + j);
        const uint32_t position = position_in_sight(p, s, query, s.key_index + first + j);
        UNROLL
        for (uint32_t c = 0; c < WHOLE_CHUNK / WARP; c++) {
            const uint32_t i = from + c * WARP + lane;
            float x = 0;
            if (is_there && i < p.head_dim)
                x = is_v ? value_element(p, place.k + place.v_bytes, t.math, i)
                         : key_element(p, place.k, t.math, position, i);
            t.keys[j * (WHOLE_CHUNK + 1) + c * WARP + lane] = x;
        }
    }
}

/* q k of the lane's key and the warp's row: four sums, in the order of attention_reference. */
DEVICE void dot_whole_chunk(const struct attention_parameters &p, const struct masked_tile &t,
                            uint32_t from, float (&dots)[4])
{
    const uint32_t left = p.head_dim - from;
    const uint32_t n = left < WHOLE_CHUNK ? left : WHOLE_CHUNK;
    const float *k = t.keys + threadIdx.x % WARP * (WHOLE_CHUNK + 1);
    const float *q = t.queries + threadIdx.x / WARP * p.head_dim + from;
    if (threadIdx.x / WARP >= t.n_rows)
        return;
    for (uint32_t i = 0; i < n; i += 4) {
        UNROLL
        for (uint32_t c = 0; c < 4; c++)
            dots[c] = multiply_add(q[i + c], k[i + c], dots[c]);
    }
}

/* Adds p V for the warp's row and a chunk of elements. The first chunk also sums p. */
DEVICE void add_whole_chunk(const struct masked_tile &t, const float *weights, uint32_t chunk,
                            struct row_sums<WHOLE_ELEMENTS> &sums)
{
    constexpr uint32_t n = WHOLE_CHUNK / WARP;
    for (uint32_t j = 0; j < ATTENTION_TILE_KEYS; j++) {
        const float *v = t.keys + j * (WHOLE_CHUNK + 1) + threadIdx.x % WARP;
        const float weight = round_weight(t.math, weights[j]);
        if (chunk == 0)
            sums.total += weights[j];
        if (weight == 0) /* V of a hidden key may be NaN */
            continue;
        UNROLL
        for (uint32_t c = 0; c < WHOLE_ELEMENTS; c++)
            if (c / n == chunk)
                sums.sums[c] = multiply_add(weight, v[c % n * WARP], sums.sums[c]);
    }
}

/* The scores of the warp's row, from the first visible key on. */
template <bool IS_SHORT>
DEVICE float *scores_of(const struct attention_parameters &p, const struct masked_tile &t)
{
    const uint64_t warp = threadIdx.x / WARP;
    if (IS_SHORT)
        return t.weights + warp * ATTENTION_SHORT_KEYS;
    return p.scores + (blockIdx.x * (uint64_t)ATTENTION_WHOLE_ROWS + warp) * p.score_stride;
}

/* Stores scores up to the end of the last tile; -inf for keys that the row does not see. */
DEVICE void store_scores(const struct attention_parameters &p, const struct masked_tile &t,
                         const struct key_range &keys, float *scores)
{
    const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    for (uint32_t first = keys.begin; first < keys.end; first += ATTENTION_TILE_KEYS) {
        float dots[4] = {};
        for (uint32_t from = 0; from < p.head_dim; from += WHOLE_CHUNK) {
            load_whole_keys(p, t, first, from, false);
            cta_sync();
            dot_whole_chunk(p, t, from, dots);
            cta_sync();
        }
        const float dot = (dots[0] + dots[1]) + (dots[2] + dots[3]);
        if (warp < t.n_rows)
            scores[first - keys.begin + lane] = score_of(p, t, warp, first + lane, dot);
    }
}

/* Turns the scores of the warp's row into weights; a lane has every thirty-second one. */
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
    for (uint32_t first = keys.begin; first < keys.end; first += ATTENTION_TILE_KEYS) {
        for (uint32_t from = 0, chunk = 0; from < p.head_dim; from += WHOLE_CHUNK, chunk++) {
            load_whole_keys(p, t, first, from, true);
            cta_sync();
            if (threadIdx.x / WARP < t.n_rows)
                add_whole_chunk(t, weights + (first - keys.begin), chunk, sums);
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
        /* A window may begin after the last key of a rank. */
        keys.end = keys.begin < keys.end ? keys.end : keys.begin;
        float *scores = scores_of<IS_SHORT>(p, t);
        load_whole_queries(p, t);
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
