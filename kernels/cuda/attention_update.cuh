/*
 * attention_update - prepares the rows of a step: writes queries to the workspace and new keys to the cache.
 *
 *     stored = round(rotate(norm(row + bias)) / scale)
 *
 * Grid: x a token, y four heads: first those of the queries, then K and V of a kv head; a warp a head. attention_update_quads
 * is for heads of 128 in BF16 that are rotated completely or not at all: a lane has four neighbours, and a warp UPDATE_HEADS
 * heads of the queries; the bits are the same. Bound: memory.
 * Oracle: kernels/reference/head.c, kv_head.c; a norm's sum is float32, in the order of the lanes.
 */
#pragma once

#include "kernels/cuda/attention_row.cuh"

#define UPDATE_WARPS 4u
#define UPDATE_HEADS 4u

/* The elements of one lane: lane, lane + 32, ... */
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

DEVICE float norm_factor(const struct attention_parameters &p, float squares)
{
    return 1 / sqrtf(squares / (float)p.head_dim + p.norm_eps);
}

/* The unit in which Q is rounded. */
DEVICE float query_unit(const struct attention_parameters &p)
{
    return 1 / (p.scale * (is_8bit(p.cache) ? p.k_scale : 1));
}

DEVICE void norm_head(const struct attention_parameters &p, const void *weights,
                      struct lane_head &head)
{
    const uint32_t lane = threadIdx.x % WARP;
    float squares = 0;
    UNROLL
    for (uint32_t c = 0; c < 8; c++)
        squares += head.x[c] * head.x[c]; /* 0 after the head */
    for (int mask = 16; mask > 0; mask /= 2)
        squares += shuffle_xor(squares, mask);
    const float factor = norm_factor(p, squares);
    UNROLL
    for (uint32_t c = 0; c < 8; c++)
        if (c * WARP + lane < p.head_dim)
            head.x[c] *= factor * load_element(p.norm_dtype, weights, c * WARP + lane);
}

/* Rotates a head. The elements of a pair are exchanged through shared memory: [CUDA_HEAD_DIM_MAX] of the warp. */
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
    const float unit = query_unit(p);
    float *query = p.queries + ((uint64_t)token * p.n_heads + head_index) * p.head_dim;
    const bool is_packed = p.packs_queries && s.kind == SEQUENCE_IS_CONTEXT;
    UNROLL
    for (uint32_t c = 0; c < 8; c++) {
        const uint32_t i = c * WARP + threadIdx.x % WARP;
        if (i >= p.head_dim)
            continue;
        if (is_packed)
            ((uint16_t *)query)[i] = half_for_math(p.math, head.x[c], unit);
        else
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

/* Whether a later key of the step overwrites this key's slot of a cyclic cache. */
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
    if (p.n_rotary != 0 && p.sink_tokens == 0) { /* else it is rotated when read */
        const uint64_t angle = (uint64_t)key * (p.n_rotary / 2);
        turn_head(p, p.k_cos + angle, p.k_sin + angle, shared, head);
    }
    store_head(p, head, p.k_scale, slot);
    store_head(p, load_head(p, p.v, row * p.v_stride + first, v_bias), p.v_scale, slot + v_bytes);
}

/* n_queries and n_keys are the room of the grid; the step may have fewer. */
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

/* ---- four neighbours a lane ---- */

/* Elements 4 lane .. 4 lane + 3 of a head of 128. */
struct quad {
    float x[4];
};

/* The angles of a quad. */
struct quad_angles {
    float cos[4], sin[4];
};

DEVICE struct quad_angles load_angles(const struct attention_parameters &p, const float *cos_rows,
                                      const float *sin_rows, uint32_t row)
{
    const uint32_t first = threadIdx.x % WARP * 4;
    struct quad_angles angles = {};
    if (p.n_rotary == 0)
        return angles;
    if (p.is_interleaved) {
        UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            angles.cos[i] = cos_rows[(uint64_t)row * 64 + (first + i) / 2];
            angles.sin[i] = sin_rows[(uint64_t)row * 64 + (first + i) / 2];
        }
        return angles;
    }
    uint32_t cos[4], sin[4];
    load_vector16(cos, cos_rows + (uint64_t)row * 64 + first % 64);
    load_vector16(sin, sin_rows + (uint64_t)row * 64 + first % 64);
    UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        angles.cos[i] = bits_float(cos[i]);
        angles.sin[i] = bits_float(sin[i]);
    }
    return angles;
}

DEVICE struct quad load_quad(const void *row, uint64_t at)
{
    uint32_t pairs[2];
    load_vector8(pairs, (const uint16_t *)row + at + threadIdx.x % WARP * 4);
    return {{bits_float(pairs[0] << 16), bits_float(pairs[0] & 0xffff0000u),
             bits_float(pairs[1] << 16), bits_float(pairs[1] & 0xffff0000u)}};
}

DEVICE void add_bias(const struct attention_parameters &p, uint64_t bias_at, struct quad &quad)
{
    if (!p.qkv_bias)
        return;
    UNROLL
    for (uint32_t i = 0; i < 4; i++)
        quad.x[i] += load_element(p.bias_dtype, p.qkv_bias, bias_at + threadIdx.x % WARP * 4 + i);
}

/* Sums in the order of norm_head: first elements l, l + 32, ..., where l is 4 (lane % 8) + i, then these sums by halves. */
DEVICE void norm_quad(const struct attention_parameters &p, const void *weights, struct quad &quad)
{
    const uint32_t lane = threadIdx.x % WARP;
    float sums[4];
    UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        const float square = quad.x[i] * quad.x[i];
        sums[i] = 0;
        UNROLL
        for (uint32_t c = 0; c < 4; c++)
            sums[i] += shuffle(square, c * 8 + lane % 8);
        for (int mask = 4; mask > 0; mask /= 2)
            sums[i] += shuffle_xor(sums[i], mask);
    }
    const float squares = (sums[0] + sums[2]) + (sums[1] + sums[3]);
    const float factor = norm_factor(p, squares);
    UNROLL
    for (uint32_t i = 0; i < 4; i++)
        quad.x[i] *= factor * load_element(p.norm_dtype, weights, lane * 4 + i);
}

/* Rotates a quad. The other element of a pair is in the same lane, or in the lane with the other half. */
DEVICE void turn_quad(const struct attention_parameters &p, const struct quad_angles &angles,
                      struct quad &quad)
{
    if (p.n_rotary == 0)
        return;
    const struct quad old = quad;
    UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        const float far = shuffle_xor(old.x[i], 16);
        const float other = p.is_interleaved ? old.x[i ^ 1] : far;
        const bool is_low = p.is_interleaved ? i % 2 == 0 : threadIdx.x % WARP < 16;
        const float along = old.x[i] * angles.cos[i], across = other * angles.sin[i];
        quad.x[i] = is_low ? along - across : along + across;
    }
}

DEVICE void store_query(const struct attention_parameters &p, const struct cuda_sequence &s,
                        float *query, const struct quad &quad)
{
    const uint32_t first = threadIdx.x % WARP * 4, math = math_of(p, s);
    const float unit = query_unit(p);
    if (p.packs_queries && s.kind == SEQUENCE_IS_CONTEXT) {
        uint32_t halves[4];
        UNROLL
        for (uint32_t i = 0; i < 4; i++)
            halves[i] = half_for_math(math, quad.x[i], unit);
        const uint32_t pairs[2] = {halves[0] | halves[1] << 16, halves[2] | halves[3] << 16};
        store_vector8((uint16_t *)query + first, pairs);
        return;
    }
    uint32_t ready[4];
    UNROLL
    for (uint32_t i = 0; i < 4; i++)
        ready[i] = float_bits(round_for_math(math, quad.x[i], unit, p.q_scale));
    store_vector16(query + first, ready);
}

/* Updates heads from first_head on. All loads come before the first use. */
DEVICE void update_query_quads(const struct attention_parameters &p, uint32_t token,
                               uint32_t first_head)
{
    const struct cuda_sequence &s = p.sequences[p.token_sequences[token]];
    const uint64_t row = p.token_rows[token] * p.q_stride;
    struct quad quads[UPDATE_HEADS];
    if (s.kind == SEQUENCE_IS_DUMMY)
        return;
    UNROLL
    for (uint32_t h = 0; h < UPDATE_HEADS; h++)
        if (first_head + h < p.n_heads)
            quads[h] = load_quad(p.q, row + (first_head + h) * 128);
    const struct quad_angles angles = load_angles(p, p.q_cos, p.q_sin, token);
    UNROLL
    for (uint32_t h = 0; h < UPDATE_HEADS; h++) {
        const uint32_t head = first_head + h;
        if (head >= p.n_heads)
            return;
        add_bias(p, head * 128, quads[h]);
        if (p.q_norm)
            norm_quad(p, p.q_norm, quads[h]);
        turn_quad(p, angles, quads[h]);
        store_query(p, s, p.queries + ((uint64_t)token * p.n_heads + head) * 128, quads[h]);
    }
}

DEVICE void store_quad(const struct attention_parameters &p, const struct quad &quad, float scale,
                       uint8_t *slot)
{
    const uint32_t first = threadIdx.x % WARP * 4;
    if (p.cache == DTYPE_BF16) {
        const uint32_t pairs[2] = {pack_bf16(quad.x[0], quad.x[1]),
                                   pack_bf16(quad.x[2], quad.x[3])};
        store_vector8(slot + first * 2, pairs);
        return;
    }
    UNROLL
    for (uint32_t i = 0; i < 4; i++)
        store_element(p.cache, slot, first + i, is_8bit(p.cache) ? quad.x[i] / scale : quad.x[i]);
}

DEVICE void update_key_quads(const struct attention_parameters &p, uint32_t key, uint32_t kv_head)
{
    const struct cuda_sequence &s = p.sequences[p.kv_sequences[key]];
    const uint32_t index = p.kv_indices[key];
    const uint64_t first = (uint64_t)kv_head * 128, row = p.kv_rows[key];
    const uint64_t k_bias = (uint64_t)p.n_heads * 128 + first;
    if (s.kind == SEQUENCE_IS_DUMMY || (!p.writes_workspace && is_overwritten(p, s, index)))
        return;
    struct quad k = load_quad(p.k, row * p.k_stride + first);
    struct quad v = load_quad(p.v, row * p.v_stride + first);
    const struct quad_angles angles = load_angles(p, p.k_cos, p.k_sin, key);
    uint8_t *slot = p.writes_workspace
                        ? new_key_address(p, key, kv_head)
                        : slot_address(p, s, p.kv_beams[key], kv_head, slot_of(p, index));
    const uint64_t v_bytes = p.writes_workspace ? (uint64_t)128 * element_bytes(p.cache)
                                                : p.kv_bytes;
    add_bias(p, k_bias, k);
    add_bias(p, k_bias + (uint64_t)p.n_kv_heads * 128, v);
    if (p.k_norm)
        norm_quad(p, p.k_norm, k);
    turn_quad(p, angles, k);
    store_quad(p, k, p.k_scale, slot);
    store_quad(p, v, p.v_scale, slot + v_bytes);
}

DEVICE void attention_update_quads_body(const struct attention_parameters &p)
{
    const uint32_t n_parts = p.n_queries != 0 ? (p.n_heads + UPDATE_HEADS - 1) / UPDATE_HEADS : 0;
    const uint32_t part = blockIdx.y * UPDATE_WARPS + threadIdx.x / WARP;
    if (part < n_parts) {
        if (blockIdx.x < p.n_queries && blockIdx.x < p.counts->n_tokens)
            update_query_quads(p, blockIdx.x, part * UPDATE_HEADS);
    } else if (part - n_parts < p.n_kv_heads) {
        if (blockIdx.x < p.n_keys && blockIdx.x < p.counts->n_kv_tokens)
            update_key_quads(p, blockIdx.x, part - n_parts);
    }
}
