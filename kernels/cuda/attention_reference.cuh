/*
 * attention_reference - computes softmax(scores) V, one warp a row, directly from the cache. The other attention kernels
 * are compared with it.
 *
 * Grid: x a token, y a head; one warp. Lanes are keys while scores are made, elements of the head while they are
 * summed. Bound: latency. Oracle: kernels/reference/attention_row.c.
 */
#pragma once

#include "kernels/cuda/attention_int8.cuh"

#define REFERENCE_ELEMENTS 8u /* of a lane: heads of up to 256 */

/* q k of the key with this index in the cache, computed by one lane as four sums: all kernels keep this order. */
DEVICE float dot_with_key(const struct attention_parameters &p, const struct cuda_sequence &s,
                          const struct row &row, uint32_t index)
{
    const uint32_t kv_head = row.head / (p.n_heads / p.n_kv_heads);
    const float *q = query_of(p, row);
    const uint8_t *k = find_key(p, s, beam_of(s, row.token), kv_head, index).k;
    const uint32_t position = position_in_sight(p, s, row.index, s.key_index + index);
    float dots[4] = {0, 0, 0, 0};
    for (uint32_t i = 0; i < p.head_dim; i += 4) {
        UNROLL
        for (uint32_t c = 0; c < 4; c++)
            dots[c] = multiply_add(q[i + c], key_element(p, k, math_of(p, s), position, i + c),
                                   dots[c]);
    }
    return (dots[0] + dots[1]) + (dots[2] + dots[3]);
}

/* ---- HAS_INT8: contexts of MATH_INT8 and MATH_INT8_PV_FP8 ---- */

struct int8_row {
    float *counts, *means; /* [head_dim], shared: of Q; of the tile of K */
    float q_unit, k_unit;
    float of_mean; /* q mean */
};

DEVICE void count_row(const struct attention_parameters &p, const struct row &row,
                      struct int8_row &int8)
{
    SHARED_MEMORY(memory);
    int8.counts = (float *)memory + 2 * ATTENTION_TILE_KEYS;
    int8.means = int8.counts + p.head_dim;
    int8.q_unit = count_query(p, query_of(p, row), int8.counts);
}

/* Computes the means of the tile that has the key `first`. */
DEVICE void find_means(const struct attention_parameters &p, const struct cuda_sequence &s,
                       const struct row &row, uint32_t first, struct int8_row &int8)
{
    const uint32_t kv_head = row.head / (p.n_heads / p.n_kv_heads);
    const struct key_range keys = keys_of_tile(p, s, first);
    float farthest = 0;
    for (uint32_t i = threadIdx.x % WARP; i < p.head_dim; i += WARP) {
        const struct tile_element element = element_of_tile(p, s, kv_head, keys, i);
        int8.means[i] = element.mean;
        farthest = fmaxf(farthest, element.farthest);
    }
    int8.k_unit = largest_of_warp(farthest) / INT8_LARGEST;
    int8.of_mean = query_with_mean(p, query_of(p, row), int8.means);
    warp_sync();
}

DEVICE float int8_dot_with_key(const struct attention_parameters &p, const struct cuda_sequence &s,
                               const struct row &row, uint32_t index, const struct int8_row &int8)
{
    const uint32_t kv_head = row.head / (p.n_heads / p.n_kv_heads);
    const uint8_t *k = find_key(p, s, beam_of(s, row.token), kv_head, index).k;
    float dot = 0;
    for (uint32_t i = 0; i < p.head_dim; i++) {
        const float x = key_element(p, k, p.math, s.key_index + index, i) - int8.means[i];
        dot = multiply_add(int8.counts[i], count_of(x, int8.k_unit), dot);
    }
    return multiply_add(dot, int8.q_unit * int8.k_unit, int8.of_mean);
}

/* ---- a row ---- */

template <bool HAS_INT8>
DEVICE float dot_of(const struct attention_parameters &p, const struct cuda_sequence &s,
                    const struct row &row, uint32_t index, const struct int8_row &int8)
{
    if (HAS_INT8 && is_int8(math_of(p, s)))
        return int8_dot_with_key(p, s, row, index, int8);
    return dot_with_key(p, s, row, index);
}

/* Adds the keys of one tile to the sums. Shared memory: [2][ATTENTION_TILE_KEYS] scores and weights. */
template <bool HAS_INT8>
DEVICE void add_tile(const struct attention_parameters &p, const struct cuda_sequence &s,
                     const struct row &row, uint32_t first, const struct int8_row &int8,
                     struct row_sums<REFERENCE_ELEMENTS> &sums)
{
    const uint32_t lane = threadIdx.x % WARP, math = math_of(p, s);
    const uint32_t kv_head = row.head / (p.n_heads / p.n_kv_heads);
    SHARED_MEMORY(memory);
    float *scores = (float *)memory, *weights = scores + ATTENTION_TILE_KEYS;
    const float added = added_to_score(p, s, row, first + lane);
    float largest = -INFINITY;
    bool sees = false;
    scores[lane] = added == -INFINITY
                       ? added
                       : capped(p, dot_of<HAS_INT8>(p, s, row, first + lane, int8)) + added;
    warp_sync();
    for (uint32_t j = 0; j < ATTENTION_TILE_KEYS; j++) {
        largest = fmaxf(largest, scores[j]);
        sees = sees || scores[j] != -INFINITY;
    }
    if (!sees) {
        warp_sync();
        return;
    }
    if (largest != -INFINITY) /* else all are NaN or hidden */
        weigh_sums(math, fmaxf(sums.m, m_of(math, largest)), sums);
    weights[lane] = scores[lane] == -INFINITY ? 0 : weight_of(math, scores[lane], sums.m);
    warp_sync();
    for (uint32_t j = 0; j < ATTENTION_TILE_KEYS; j++) {
        const float weight = round_weight(math, weights[j]);
        sums.total += weights[j];
        if (weight == 0)
            continue;
        const struct key_place place = find_key(p, s, beam_of(s, row.token), kv_head, first + j);
        const uint8_t *v = place.k + place.v_bytes;
        const float unit = HAS_INT8 ? unit_of_value(p, v, math) : 0;
        for (uint32_t i = lane, c = 0; i < p.head_dim; i += WARP, c++)
            sums.sums[c] = multiply_add(weight, value_in_units(value_element(p, v, math, i), unit),
                                        sums.sums[c]);
    }
    warp_sync();
}

/* HAS_INT8: shared memory also has [2][head_dim]. */
template <bool HAS_INT8> DEVICE void attention_reference_body(const struct attention_parameters &p)
{
    const uint32_t token = blockIdx.x;
    if (token >= p.counts->n_tokens)
        return;
    const struct cuda_sequence &s = p.sequences[p.token_sequences[token]];
    const uint32_t math = math_of(p, s);
    const struct row row = row_of(p, s, token, blockIdx.y);
    struct row_sums<REFERENCE_ELEMENTS> sums, range;
    struct int8_row int8 = {};
    clear_sums(sums);
    if (s.kind != SEQUENCE_IS_DUMMY) {
        const struct key_range keys = keys_in_sight(p, s, row, row);
        begin_sums(p, math, row.head, sums);
        if (HAS_INT8 && is_int8(math))
            count_row(p, row, int8);
        for (uint32_t first = keys.begin; first < keys.end;) {
            const uint32_t end = (first / ATTENTION_RANGE_KEYS + 1) * ATTENTION_RANGE_KEYS;
            clear_sums(range);
            for (; first < end && first < keys.end; first += ATTENTION_TILE_KEYS) {
                if (HAS_INT8 && is_int8(math) &&
                    (first == keys.begin || first % INT8_TILE_KEYS == 0))
                    find_means(p, s, row, first, int8);
                add_tile<HAS_INT8>(p, s, row, first, int8, range);
            }
            merge_range(math, range, sums);
        }
    }
    store_row(p, math, row, sums);
}
