/*
 * attention_keys - finds a key in the cache, and loads its elements for the products.
 */
#pragma once

#include "kernels/cuda/attention_head.cuh"

/* The place of K of a key; V is v_bytes further on. */
struct key_place {
    const uint8_t *k;
    uint64_t v_bytes;
};

/* The slot of a token: kv_slot of attention.h. */
DEVICE uint32_t slot_of(const struct attention_parameters &p, uint32_t token)
{
    if (!p.is_cyclic || token < p.window)
        return token;
    return p.sink_tokens + (token - p.sink_tokens) % (p.window - p.sink_tokens);
}

/* Of the blocks of a beam in the table of the layer: the place of the first in p.block_ids. */
DEVICE uint64_t first_block_of(const struct attention_parameters &p, const struct cuda_sequence &s,
                               uint32_t beam)
{
    return s.first_block + ((uint64_t)p.block_table * s.n_beams + beam) * s.n_blocks;
}

DEVICE uint8_t *slot_address(const struct attention_parameters &p, const struct cuda_sequence &s,
                             uint32_t beam, uint32_t kv_head, uint32_t slot)
{
    const uint32_t index = p.is_contiguous ? 0 : slot / p.block_tokens;
    const uint32_t within = p.is_contiguous ? slot : slot % p.block_tokens;
    const uint64_t block = p.block_ids[first_block_of(p, s, beam) + index];
    return (uint8_t *)p.kv_base + block * p.block_bytes + kv_head * p.head_bytes +
           within * p.token_bytes;
}

DEVICE uint8_t *new_key_address(const struct attention_parameters &p, uint32_t key,
                                uint32_t kv_head)
{
    const uint64_t bytes = (uint64_t)p.head_dim * element_bytes(p.cache);
    return (uint8_t *)p.new_keys + ((uint64_t)key * p.n_kv_heads + kv_head) * 2 * bytes;
}

/* The key with this index in the cache, as one beam sees it. */
DEVICE struct key_place find_key(const struct attention_parameters &p,
                                 const struct cuda_sequence &s, uint32_t beam, uint32_t kv_head,
                                 uint32_t index)
{
    const bool is_new = p.is_self && index + s.query_len >= s.kv_len;
    if (p.reads_workspace && is_new) {
        const uint32_t key = s.first_new + index - (s.kv_len - s.query_len);
        return {new_key_address(p, key, kv_head), (uint64_t)p.head_dim * element_bytes(p.cache)};
    }
    if (s.first_source != ATTENTION_NONE && !is_new)
        beam = p.sources[s.first_source + (uint64_t)beam * s.kv_len + index];
    return {slot_address(p, s, beam, kv_head, slot_of(p, index)), p.kv_bytes};
}

DEVICE float in_units(const struct attention_parameters &p, const uint8_t *row, uint32_t i,
                      float scale)
{
    const float x = load_element(p.cache, row, i);
    return is_8bit(p.cache) ? x * scale : x;
}

/* Element i of K. position: StreamingLLM rotates K by it. */
DEVICE float key_element(const struct attention_parameters &p, const uint8_t *k, uint32_t math,
                         uint32_t position, uint32_t i)
{
    float x = in_units(p, k, i, p.k_scale);
    if (p.sink_tokens != 0 && i < p.n_rotary) {
        const uint64_t angles = (uint64_t)position * (p.n_rotary / 2);
        x = turn(p, p.position_cos + angles, p.position_sin + angles, i, x,
                 in_units(p, k, pair_of(p, i), p.k_scale));
    }
    return round_for_math(math, x, is_8bit(p.cache) ? p.k_scale : 1, p.k_scale);
}

DEVICE float value_element(const struct attention_parameters &p, const uint8_t *v, uint32_t math,
                           uint32_t i)
{
    return round_for_math(math, in_units(p, v, i, p.v_scale), is_8bit(p.cache) ? p.v_scale : 1,
                          p.v_scale);
}

/* StreamingLLM: the position of a key among those that a query with this index sees. A context sees every key. */
DEVICE uint32_t position_in_sight(const struct attention_parameters &p,
                                  const struct cuda_sequence &s, uint32_t query, uint32_t key)
{
    if (s.kind == SEQUENCE_IS_CONTEXT || key < p.sink_tokens || query < p.window)
        return key;
    const uint32_t n_gone = query - (p.window - 1);
    return key < n_gone ? 0 : key - n_gone; /* 0: hidden, any angle will do */
}
