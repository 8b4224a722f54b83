/*
 * layer_update - writes rows of K and V to a cache: the operator of kernels/kv_update.h.
 *
 * Grid: x sequences, y parts of a sequence, which take its rows in turn; lengths are read on the device. A thread
 * writes two elements of K and of V. Bound: memory. Oracle: kernels/reference/kv_update.c.
 */
#pragma once

#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/layer_parameters.h"

/* Two elements of a head that are rotated together; after rotary_dim, two neighbours. */
struct pair {
    uint32_t low, high;
};

DEVICE struct pair pair_of_slot(uint32_t slot, uint32_t rotary_dim, uint32_t is_interleaved)
{
    if (slot < rotary_dim / 2 && !is_interleaved)
        return {slot, slot + rotary_dim / 2};
    return {2 * slot, 2 * slot + 1};
}

DEVICE void turn_pair(float cos, float sin, float &low, float &high)
{
    const float l = low, h = high;
    low = multiply_add(l, cos, -(h * sin));
    high = multiply_add(h, cos, l * sin);
}

/* The slot of a token: linear, or cyclic after the slots of the sinks. */
DEVICE uint32_t update_slot(const struct kv_update_parameters &p, uint32_t token)
{
    if (p.window == 0 || token < p.window)
        return token;
    return p.sink_tokens + (token - p.sink_tokens) % (p.window - p.sink_tokens);
}

/* The address of a head in the layer, computed in 64 bits. */
DEVICE uint8_t *update_address(const struct kv_update_parameters &p, uint32_t sequence,
                               uint32_t slot, uint32_t head)
{
    const uint32_t index = p.is_contiguous ? 0 : slot / p.block_tokens;
    const uint32_t within = p.is_contiguous ? slot : slot % p.block_tokens;
    const uint64_t block = p.block_ids ? p.block_ids[(uint64_t)sequence * p.n_blocks + index]
                                       : sequence;
    return p.base + block * p.block_stride + head * p.head_stride + within * p.token_stride;
}

DEVICE void update_pair(const struct kv_update_parameters &p, uint32_t token, uint64_t row,
                        uint32_t i, uint8_t *k_slot)
{
    const uint32_t slot = i % (p.head_dim / 2);
    const uint32_t first = i / (p.head_dim / 2) * p.head_dim;
    const struct pair pair = pair_of_slot(slot, p.rotary_dim, p.is_interleaved);
    float k[2], v[2];
    UNROLL
    for (uint32_t j = 0; j < 2; j++) {
        const uint32_t at = first + (j ? pair.high : pair.low);
        k[j] = load_element(p.dtype, p.k, row * p.k_stride + at);
        v[j] = load_element(p.dtype, p.v, row * p.v_stride + at);
        if (p.k_bias)
            k[j] += load_element(p.bias_dtype, p.k_bias, at);
        if (p.v_bias)
            v[j] += load_element(p.bias_dtype, p.v_bias, at);
    }
    if (slot < p.rotary_dim / 2) {
        const uint64_t position = p.positions ? p.positions[row] : token;
        const uint64_t angle = position * (p.rotary_dim / 2) + slot;
        turn_pair(p.cos[angle], p.sin[angle], k[0], k[1]);
    }
    UNROLL
    for (uint32_t j = 0; j < 2; j++) {
        const uint32_t at = j ? pair.high : pair.low;
        store_element(p.cache, k_slot, at, k[j] / p.k_scale);
        store_element(p.cache, k_slot + p.kv_stride, at, v[j] / p.v_scale);
    }
}

DEVICE void kv_update_body(const struct kv_update_parameters &p)
{
    const uint32_t sequence = blockIdx.x, n_pairs = p.n_kv_heads * (p.head_dim / 2);
    const uint32_t len = p.lens[sequence], first_token = p.write_indices[sequence];
    uint64_t first = (uint64_t)sequence * p.padded_len;
    for (uint32_t s = 0; p.padded_len == 0 && s < sequence; s++)
        first += p.lens[s];
    for (uint32_t row = blockIdx.y; row < len; row += gridDim.y) {
        const uint32_t token = first_token + row;
        const bool is_overwritten = p.window != 0 && token >= p.sink_tokens &&
                                    (uint64_t)token + p.window - p.sink_tokens <
                                        (uint64_t)first_token + len;
        if (is_overwritten)
            continue;
        for (uint32_t i = threadIdx.x; i < n_pairs; i += blockDim.x)
            update_pair(p, token, first + row, i,
                        update_address(p, sequence, update_slot(p, token), i / (p.head_dim / 2)));
    }
}
