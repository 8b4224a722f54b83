/*
 * attention_reference - softmax(scores) V, a warp a row, straight from the cache: what the other kernels of attention
 * are compared with.
 *
 * Grid: x a token, y a head; one warp. Lanes are keys while scores are made, elements of the head while they are
 * summed. Bound: latency. Oracle: kernels/reference/attention_row.c.
 */
#pragma once

#include "kernels/cuda/attention_row.cuh"

#define REFERENCE_ELEMENTS 8u /* of a lane: heads of up to 256 */

/* q k of a key with an index in the cache, by the lane alone. Four sums: the order that all kernels keep to. */
DEVICE float dot_with_key(const struct attention_parameters &p, const struct cuda_sequence &s,
                          const struct row &row, uint32_t index)
{
    const uint32_t kv_head = row.head / (p.n_heads / p.n_kv_heads);
    const float *q = p.queries + ((uint64_t)row.token * p.n_heads + row.head) * p.head_dim;
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

/* One tile's keys into the sums. Shared memory: [2][ATTENTION_TILE_KEYS] scores and weights. */
DEVICE void add_tile(const struct attention_parameters &p, const struct cuda_sequence &s,
                     const struct row &row, uint32_t first,
                     struct row_sums<REFERENCE_ELEMENTS> &sums)
{
    const uint32_t lane = threadIdx.x % WARP, math = math_of(p, s);
    const uint32_t kv_head = row.head / (p.n_heads / p.n_kv_heads);
    SHARED_MEMORY(memory);
    float *scores = (float *)memory, *weights = scores + ATTENTION_TILE_KEYS;
    const float added = added_to_score(p, s, row, first + lane);
    float largest = -INFINITY;
    scores[lane] = added == -INFINITY ? added
                                      : capped(p, dot_with_key(p, s, row, first + lane)) + added;
    warp_sync();
    for (uint32_t j = 0; j < ATTENTION_TILE_KEYS; j++)
        largest = fmaxf(largest, scores[j]);
    if (largest == -INFINITY) {
        warp_sync();
        return;
    }
    weigh_sums(math, fmaxf(sums.m, m_of(math, largest)), sums);
    weights[lane] = scores[lane] == -INFINITY ? 0 : weight_of(math, scores[lane], sums.m);
    warp_sync();
    for (uint32_t j = 0; j < ATTENTION_TILE_KEYS; j++) {
        const float weight = round_weight(math, weights[j]);
        sums.total += weights[j];
        if (weight == 0)
            continue;
        const struct key_place place = find_key(p, s, beam_of(s, row.token), kv_head, first + j);
        for (uint32_t i = lane, c = 0; i < p.head_dim; i += WARP, c++)
            sums.sums[c] = multiply_add(weight, value_element(p, place.k + place.v_bytes, math, i),
                                        sums.sums[c]);
    }
    warp_sync();
}

DEVICE void attention_reference_body(const struct attention_parameters &p)
{
    const uint32_t token = blockIdx.x;
    if (token >= p.counts->n_tokens)
        return;
    const struct cuda_sequence &s = p.sequences[p.token_sequences[token]];
    const uint32_t math = math_of(p, s);
    const struct row row = row_of(p, s, token, blockIdx.y);
    struct row_sums<REFERENCE_ELEMENTS> sums, range;
    clear_sums(sums);
    if (s.kind != SEQUENCE_IS_DUMMY) {
        const struct key_range keys = keys_in_sight(p, s, row, row);
        begin_sums(p, math, row.head, sums);
        for (uint32_t first = keys.begin; first < keys.end;) {
            const uint32_t end = (first / ATTENTION_RANGE_KEYS + 1) * ATTENTION_RANGE_KEYS;
            clear_sums(range);
            for (; first < end && first < keys.end; first += ATTENTION_TILE_KEYS)
                add_tile(p, s, row, first, range);
            merge_range(math, range, sums);
        }
    }
    store_row(p, math, row, sums);
}
