/*
 * attention_grouped_tile - the state of a CTA of attention_grouped: its rows, and the keys that they see.
 */
#pragma once

#include "kernels/cuda/attention_masked.cuh"
#include "kernels/cuda/attention_tensor.cuh"

#define GROUPED_WARPS 4u
#define GROUPED_ROWS  8u
#define GROUPED_TURNS                                                                              \
    (ATTENTION_RANGE_KEYS / (16 * GROUPED_WARPS)) /* of a range: tiles of a warp */

struct grouped_tile {
    struct cuda_tile tile;
    const struct cuda_sequence *sequence;
    uint32_t kv_head, first_head, n_heads;
    uint32_t first_row, n_rows; /* the CTA's rows of the tile */
    struct key_range keys;      /* keys that some row may see: not whole tiles */
    struct key_range plain;     /* keys that every row sees, with nothing added to their scores */
    bool is_near;               /* a full tile of keys is in one block */
    uint32_t stages;            /* of the warp */
    uint8_t *memory;            /* shared */
};

/* Where tiles of near keys are: a lane's part of a tile is 16 bytes of some rows at equal distances. */
struct grouped_blocks {
    const uint32_t *ids;
    const uint8_t *base; /* in block 0, of the kv head: the lane's row and 16 bytes */
    uint32_t shift;      /* log2 of a block's tokens; 31: there is one block only */
};

/* The sums of a warp for a range: elements 16 i + lane / 4 and + 8 (with 8 bits: 16 i + lane / 4 * 2 and the next one) of
 * rows lane % 4 * 2 and the next one. total is the part of the lane. */
template <uint32_t HEAD> struct grouped_sums {
    float o[HEAD / 16][4];
    float m[2], total[2];
};

DEVICE constexpr bool grouped_is_narrow(uint32_t cache)
{
    return cache == DTYPE_INT8 || cache == DTYPE_E4M3;
}

DEVICE constexpr uint32_t grouped_bytes(uint32_t cache)
{
    return grouped_is_narrow(cache) ? 1 : 2;
}

DEVICE struct row grouped_row(const struct attention_parameters &p, const struct grouped_tile &t,
                              uint32_t column)
{
    const uint32_t n = t.first_row + (column < t.n_rows ? column : 0);
    return row_of(p, *t.sequence, t.tile.first_token + n / t.n_heads, t.first_head + n % t.n_heads);
}

/* Finds the plain keys. The rows of a tile are consecutive in their sequence. */
DEVICE void grouped_find_plain(const struct attention_parameters &p, struct grouped_tile &t,
                               const struct row &first, const struct row &last)
{
    const struct cuda_sequence &s = *t.sequence;
    const bool has_bias = p.mask_input != INPUT_IS_NONE || p.slopes || p.table || p.buckets;
    const uint32_t oldest = oldest_in_sight(p, s, last.index);
    uint32_t end = UINT32_MAX; /* index in the sequence */
    if (p.mask_kind != MASK_IS_BIDIRECTIONAL)
        end = (p.mask_kind == MASK_IS_CAUSAL ? first.index : first.query) + 1;
    if (s.first_draft != ATTENTION_NONE && first.index - first.query < end)
        end = first.index - first.query;
    end = end > s.key_index ? end - s.key_index : 0;
    t.plain.begin = t.keys.begin > oldest ? t.keys.begin : oldest;
    t.plain.end = has_bias ? 0 : t.keys.end < end ? t.keys.end : end;
}

DEVICE bool grouped_is_within(const struct key_range &keys, uint32_t first)
{
    return first >= keys.begin && first + 16 <= keys.end;
}

DEVICE void grouped_find_keys(const struct attention_parameters &p, struct grouped_tile &t)
{
    const struct row first = grouped_row(p, t, 0), last = grouped_row(p, t, t.n_rows - 1);
    t.keys = keys_in_sight(p, *t.sequence, first, last);
    t.keys.begin = oldest_in_sight(p, *t.sequence, first.index);
    grouped_find_plain(p, t, first, last);
    const bool is_whole = p.is_contiguous ||
                          (p.block_tokens >= 16 && (p.block_tokens & (p.block_tokens - 1)) == 0);
    t.is_near = is_whole && !p.is_cyclic && t.sequence->first_source == ATTENTION_NONE;
}

template <uint32_t HEAD, uint32_t BYTES>
DEVICE struct grouped_tile grouped_tile_of(const struct attention_parameters &p, uint8_t *memory)
{
    constexpr uint32_t OF_WARP = 4 * 16 * HEAD * BYTES;
    const uint32_t n_eights = gridDim.y / (p.n_parts * p.n_kv_heads); /* for the rows of a tile */
    const uint32_t group = p.n_heads / p.n_kv_heads, part = blockIdx.y / n_eights % p.n_parts;
    const uint32_t first = part * p.tile_heads;
    struct grouped_tile t;
    t.tile = p.tiles[p.first_tile + blockIdx.x];
    t.sequence = &p.sequences[t.tile.sequence];
    t.kv_head = blockIdx.y / n_eights / p.n_parts;
    t.first_head = t.kv_head * group + first;
    t.n_heads = group - first < p.tile_heads ? group - first : p.tile_heads;
    t.first_row = blockIdx.y % n_eights * GROUPED_ROWS;
    const uint32_t n = t.tile.n_tokens * t.n_heads;
    t.n_rows = n <= t.first_row                 ? 0
               : n - t.first_row < GROUPED_ROWS ? n - t.first_row
                                                : GROUPED_ROWS;
    t.keys = t.plain = {0, 0};
    t.is_near = false;
    t.stages = shared_address(memory) + threadIdx.x / WARP * OF_WARP;
    t.memory = memory;
    return t;
}
