/*
 * attention_update - a step's rows made ready: queries into the workspace, new keys into the cache.
 *
 *     stored = round(rotate(norm(row + bias)) / scale)
 *
 * Grid: x a token, y four heads: first those of the queries, then K and V of a kv head; a warp a head. Bound: memory.
 * Oracle: kernels/reference/head.c, kv_head.c; a norm's sum is float32, in the order of the lanes.
 */
#pragma once

#include "kernels/cuda/attention_row.cuh"

#define UPDATE_WARPS 4u

/* Elements of one lane: lane, lane + 32, ... */
struct lane_head {
    float x[8];
};

DEVICE struct lane_head load_head(const struct attention_parameters &p, const void *row,
                                  uint64_t at, uint64_t bias_at)
{
    const uint32_t lane = threadIdx.x % WARP;
    struct lane_head head = {};
    UNROLL
    for (uint32_t c = 0; c < 8; c++) {
        const uint32_t i = c * WARP + lane;
        if (i >= p.head_dim)
            continue;
        head.x[c] = load_element(p.compute, row, at + i);
        if (p.qkv_bias)
            head.x[c] += load_element(p.bias_dtype, p.qkv_bias, bias_at + i);
    }
    return head;
}

DEVICE void norm_head(const struct attention_parameters &p, const void *weights,
                      struct lane_head &head)
{
    const uint32_t lane = threadIdx.x % WARP;
    float squares = 0;
    UNROLL
    for (uint32_t c = 0; c < 8; c++)
        squares += head.x[c] * head.x[c]; /* 0 behind the head */
    for (int mask = 16; mask > 0; mask /= 2)
        squares += shuffle_xor(squares, mask);
    const float factor = 1 / sqrtf(squares / (float)p.head_dim + p.norm_eps);
    UNROLL
    for (uint32_t c = 0; c < 8; c++)
        if (c * WARP + lane < p.head_dim)
            head.x[c] *= factor * load_element(p.norm_dtype, weights, c * WARP + lane);
}

/* A head's pairs meet in shared memory: [HEAD_DIM_MAX] of the warp. */
DEVICE void turn_head(const struct attention_parameters &p, const float *cos_row,
                      const float *sin_row, float *shared, struct lane_head &head)
{
    const uint32_t lane = threadIdx.x % WARP;
    UNROLL
    for (uint32_t c = 0; c < 8; c++)
        shared[c * WARP + lane] = head.x[c];
    warp_sync();
    UNROLL
    for (uint32_t c = 0; c < 8; c++) {
        const uint32_t i = c * WARP + lane;
        if (i < p.n_rotary)
            head.x[c] = turn(p, cos_row, sin_row, i, head.x[c], shared[pair_of(p, i)]);
    }
}

DEVICE void update_query(const struct attention_parameters &p, uint32_t token, uint32_t head_index,
                         float *shared)
{
    const struct cuda_sequence &s = p.sequences[p.token_sequences[token]];
    const uint64_t first = (uint64_t)head_index * p.head_dim;
    if (s.kind == SEQUENCE_IS_DUMMY)
        return;
    struct lane_head head = load_head(p, p.q, p.token_rows[token] * p.q_stride + first, first);
    if (p.q_norm)
        norm_head(p, p.q_norm, head);
    if (p.n_rotary != 0) {
        const uint64_t angle = (uint64_t)token * (p.n_rotary / 2);
        turn_head(p, p.q_cos + angle, p.q_sin + angle, shared, head);
    }
    const float unit = 1 / (p.scale * (is_8bit(p.cache) ? p.k_scale : 1));
    float *query = p.queries + ((uint64_t)token * p.n_heads + head_index) * p.head_dim;
    UNROLL
    for (uint32_t c = 0; c < 8; c++) {
        const uint32_t i = c * WARP + threadIdx.x % WARP;
        if (i < p.head_dim)
            query[i] = round_for_math(math_of(p, s), head.x[c], unit, p.q_scale);
    }
}

DEVICE void store_head(const struct attention_parameters &p, const struct lane_head &head,
                       float scale, uint8_t *slot)
{
    UNROLL
    for (uint32_t c = 0; c < 8; c++) {
        const uint32_t i = c * WARP + threadIdx.x % WARP;
        if (i < p.head_dim)
            store_element(p.cache, slot, i, is_8bit(p.cache) ? head.x[c] / scale : head.x[c]);
    }
}

/* Of keys of a step that meet in a slot of a cyclic cache the last one stays. */
DEVICE bool is_overwritten(const struct attention_parameters &p, const struct cuda_sequence &s,
                           uint32_t index)
{
    return p.is_cyclic && index >= p.sink_tokens &&
           (uint64_t)index + (p.window - p.sink_tokens) < s.kv_len;
}

DEVICE void update_key(const struct attention_parameters &p, uint32_t key, uint32_t kv_head,
                       float *shared)
{
    const struct cuda_sequence &s = p.sequences[p.kv_sequences[key]];
    const uint32_t index = p.kv_indices[key];
    const uint64_t first = (uint64_t)kv_head * p.head_dim, row = p.kv_rows[key];
    const uint64_t k_bias = (uint64_t)p.n_heads * p.head_dim + first;
    const uint64_t v_bias = k_bias + (uint64_t)p.n_kv_heads * p.head_dim;
    if (s.kind == SEQUENCE_IS_DUMMY || (!p.writes_workspace && is_overwritten(p, s, index)))
        return;
    uint8_t *slot = p.writes_workspace
                        ? new_key_address(p, key, kv_head)
                        : slot_address(p, s, p.kv_beams[key], kv_head, slot_of(p, index));
    const uint64_t v_bytes = p.writes_workspace ? (uint64_t)p.head_dim * element_bytes(p.cache)
                                                : p.kv_bytes;
    struct lane_head head = load_head(p, p.k, row * p.k_stride + first, k_bias);
    if (p.k_norm)
        norm_head(p, p.k_norm, head);
    if (p.n_rotary != 0 && p.sink_tokens == 0) { /* else it turns when it is read */
        const uint64_t angle = (uint64_t)key * (p.n_rotary / 2);
        turn_head(p, p.k_cos + angle, p.k_sin + angle, shared, head);
    }
    store_head(p, head, p.k_scale, slot);
    store_head(p, load_head(p, p.v, row * p.v_stride + first, v_bias), p.v_scale, slot + v_bytes);
}

/* n_queries and n_keys are what the grid has room for; the step may have less. */
DEVICE void attention_update_body(const struct attention_parameters &p)
{
    SHARED_MEMORY(memory);
    const uint32_t warp = threadIdx.x / WARP;
    const uint32_t n_query_heads = p.n_queries != 0 ? p.n_heads : 0;
    const uint32_t head = blockIdx.y * UPDATE_WARPS + warp;
    float *shared = (float *)memory + warp * 256;
    if (head < n_query_heads) {
        if (blockIdx.x < p.n_queries && blockIdx.x < p.counts->n_tokens)
            update_query(p, blockIdx.x, head, shared);
    } else if (head - n_query_heads < p.n_kv_heads) {
        if (blockIdx.x < p.n_keys && blockIdx.x < p.counts->n_kv_tokens)
            update_key(p, blockIdx.x, head - n_query_heads, shared);
    }
}
