/*
 * attention_grouped - generation on tensor cores (mma.sync m16n8k16): Q, K, V and p as MATH_BF16 and MATH_FP16 multiply them,
 * over caches of 16 bits of the math's own and of 8 bits; heads of 64 and 128.
 *
 * Grid: x a tile of queries (cuda_tile), y eight of its rows (columns of the products) of a kv head, z a share of the ranges
 * of keys where partial sums are wanted: how many ranges there are is read on the device, each has its own partial sums. K is
 * the left operand: 16 keys at a time a warp, in a ring of its own of two stages of cp.async; tiles go round the four warps,
 * and ranges (ATTENTION_RANGE_KEYS) are merged in their order. A warp's sums of a range lie in the stage that it read last:
 *
 *     stages  [warp][2][K, V][16][HEAD], or [warp][2][8 rows][HEAD]     weights  [warp][8 rows][m, total]
 *
 * Places of tiles are absolute and m is a whole number of log 2, so that a row's bits depend on its keys alone. A slot that
 * no row of the tile sees is not read: its elements are zeros. Bound: loads of the cache.
 * Oracle: kernels/reference/attention_row.c within the dtype.
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
    uint32_t first_row, n_rows; /* of the tile's: those of the CTA */
    struct key_range keys;      /* that some row may see: not whole tiles */
    struct key_range plain;     /* that every row sees, with nothing added to a score */
    struct key_range near;      /* whose tiles lie in one block each */
    uint32_t stages;            /* of the warp */
    uint8_t *memory;            /* shared */
};

/* Where tiles of near keys lie: a lane's part of one is 16 bytes of every so many rows. */
struct grouped_blocks {
    const uint32_t *ids;
    const uint8_t *base; /* of block 0 and the kv head, the lane's row and 16 bytes */
    uint32_t shift;      /* log2 of a block's tokens; 31: all is one block */
};

/* Of a warp and a range: elements 16 i + lane / 4 (and + 8) of rows lane % 4 * 2 and the next one. total is the lane's. */
template <uint32_t HEAD> struct grouped_sums {
    float o[HEAD / 16][4];
    float m[2], total[2];
};

DEVICE struct row grouped_row(const struct attention_parameters &p, const struct grouped_tile &t,
                              uint32_t column)
{
    const uint32_t n = t.first_row + (column < t.n_rows ? column : 0);
    return row_of(p, *t.sequence, t.tile.first_token + n / t.n_heads, t.first_head + n % t.n_heads);
}

/* Rows of a tile follow each other in their sequence. */
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
    const bool is_near = is_whole && !p.is_cyclic && t.sequence->first_source == ATTENTION_NONE;
    t.near = {t.keys.begin, is_near ? t.keys.end : 0};
}

template <uint32_t HEAD, uint32_t BYTES>
DEVICE struct grouped_tile grouped_tile_of(const struct attention_parameters &p, uint8_t *memory)
{
    constexpr uint32_t OF_WARP = 4 * 16 * HEAD * BYTES;
    const uint32_t n_eights = gridDim.y / (p.n_parts * p.n_kv_heads); /* of a tile's rows */
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
    t.keys = t.plain = t.near = {0, 0};
    t.stages = shared_address(memory) + threadIdx.x / WARP * OF_WARP;
    t.memory = memory;
    return t;
}

/* ---- operands ---- */

/* Q of column lane / 4, times the factor of the scores and the unit of K. */
template <uint32_t HEAD, bool IS_BF16>
DEVICE void grouped_load_queries(const struct attention_parameters &p, const struct grouped_tile &t,
                                 uint32_t (&q)[HEAD / 16][2])
{
    const uint32_t lane = threadIdx.x % WARP;
    const float factor = p.scale * (is_8bit(p.cache) ? p.k_scale : 1);
    const struct row row = grouped_row(p, t, lane / 4);
    const float *query = p.queries + ((uint64_t)row.token * p.n_heads + row.head) * HEAD;
    UNROLL
    for (uint32_t k = 0; k < HEAD / 16; k++) {
        UNROLL
        for (uint32_t i = 0; i < 2; i++) {
            uint32_t pair[2];
            load_vector8(pair, query + k * 16 + i * 8 + lane % 4 * 2);
            float low = bits_float(pair[0]) * factor, high = bits_float(pair[1]) * factor;
            if (!IS_BF16)
                low = clamp_f16(low), high = clamp_f16(high);
            q[k][i] = tensor_pack<IS_BF16>(low, high);
        }
    }
}

template <uint32_t BYTES>
DEVICE struct grouped_blocks grouped_blocks_of(const struct attention_parameters &p,
                                               const struct grouped_tile &t)
{
    constexpr uint32_t CHUNKS = BYTES / 16;
    const uint32_t lane = threadIdx.x % WARP;
    struct grouped_blocks blocks;
    blocks.ids = p.block_ids + t.sequence->first_block +
                 (uint64_t)t.tile.beam * t.sequence->n_blocks;
    blocks.base = (const uint8_t *)p.kv_base + t.kv_head * p.head_bytes +
                  lane / CHUNKS * p.token_bytes + lane % CHUNKS * 16;
    blocks.shift = 31;
    for (uint32_t n = 16; !p.is_contiguous && n <= p.block_tokens; n *= 2)
        blocks.shift = blocks.shift == 31 ? 4 : blocks.shift + 1;
    return blocks;
}

/* Of a tile that is loaded a turn later. */
DEVICE uint32_t grouped_block(const struct grouped_tile &t, const struct grouped_blocks &blocks,
                              uint32_t first)
{
    return grouped_is_within(t.near, first) ? blocks.ids[first >> blocks.shift] : 0;
}

/* K and V of 16 keys in one block. */
template <uint32_t BYTES>
DEVICE void grouped_load_near(const struct attention_parameters &p,
                              const struct grouped_blocks &blocks, uint32_t block, uint32_t first,
                              uint32_t stage)
{
    constexpr uint32_t CHUNKS = BYTES / 16, ROWS = WARP / CHUNKS;
    const uint32_t lane = threadIdx.x % WARP;
    const uint32_t target = stage + tensor_place<BYTES>(lane / CHUNKS, lane % CHUNKS);
    const uint8_t *k = blocks.base + block * p.block_bytes +
                       (first & ((1u << blocks.shift) - 1)) * p.token_bytes;
    UNROLL
    for (uint32_t i = 0; i < 16 / ROWS; i++) { /* tensor_place of row i ROWS + lane / CHUNKS */
        const uint32_t at = (target ^ (i * ROWS % 8 % CHUNKS << 4)) + i * ROWS * BYTES;
        cp_async16(at, k, true);
        cp_async16(at + 16 * BYTES, k + p.kv_bytes, true);
        k += ROWS * p.token_bytes;
    }
}

/* K and V of the warp's 16 keys from first on; zeros where no row sees one. */
template <uint32_t HEAD, uint32_t BYTES>
DEVICE void grouped_load(const struct attention_parameters &p, const struct grouped_tile &t,
                         const struct grouped_blocks &blocks, uint32_t block, uint32_t first,
                         uint32_t stage)
{
    if (grouped_is_within(t.near, first)) {
        grouped_load_near<HEAD * BYTES>(p, blocks, block, first, stage);
        return;
    }
    const uint32_t index = first + threadIdx.x % 16;
    uint64_t k = 0, v = 0;
    if (index >= t.keys.begin && index < t.keys.end) {
        const struct key_place place = find_key(p, *t.sequence, t.tile.beam, t.kv_head, index);
        k = (uint64_t)(uintptr_t)place.k;
        v = k + place.v_bytes;
    }
    load_rows<HEAD * BYTES>(stage, k, p.queries);
    load_rows<HEAD * BYTES>(stage + 16 * HEAD * BYTES, v, p.queries);
}

DEVICE uint32_t grouped_byte(uint32_t address)
{
    return load_shared(address & ~3u) >> (address & 3) * 8 & 0xff;
}

template <bool IS_BF16> DEVICE uint32_t grouped_widen(uint32_t cache, uint32_t low, uint32_t high)
{
    if (cache == DTYPE_INT8)
        return tensor_pack<IS_BF16>((float)(int8_t)low, (float)(int8_t)high);
    return tensor_pack<IS_BF16>(e4m3_to_float((uint8_t)low), e4m3_to_float((uint8_t)high));
}

/* 16 keys, elements 16 k ... of the head. */
template <uint32_t HEAD, uint32_t BYTES, bool IS_BF16>
DEVICE void grouped_keys(uint32_t cache, uint32_t stage, uint32_t k, uint32_t (&a)[4])
{
    const uint32_t lane = threadIdx.x % WARP;
    if constexpr (BYTES == 2) {
        ldmatrix_x4(a, (stage + tensor_place<HEAD * BYTES>(lane % 16, lane / 16)) ^ k << 5);
    } else {
        UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t at = stage + tensor_place<HEAD * BYTES>(lane / 4 + i % 2 * 8, k) +
                                i / 2 * 8 + lane % 4 * 2;
            a[i] = grouped_widen<IS_BF16>(cache, grouped_byte(at), grouped_byte(at + 1));
        }
    }
}

/* Elements 16 k ... of the head, 16 keys. */
template <uint32_t HEAD, uint32_t BYTES, bool IS_BF16>
DEVICE void grouped_values(uint32_t cache, uint32_t stage, uint32_t k, uint32_t (&a)[4])
{
    const uint32_t lane = threadIdx.x % WARP;
    if constexpr (BYTES == 2) {
        ldmatrix_x4_trans(
            a,
            (stage + tensor_place<HEAD * BYTES>(lane / 16 * 8 + lane % 8, lane / 8 % 2)) ^ k << 5);
    } else {
        UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t key = lane % 4 * 2 + i / 2 * 8, within = lane / 4 + i % 2 * 8;
            a[i] = grouped_widen<IS_BF16>(
                cache, grouped_byte(stage + tensor_place<HEAD * BYTES>(key, k) + within),
                grouped_byte(stage + tensor_place<HEAD * BYTES>(key + 1, k) + within));
        }
    }
}

/* ---- a tile of keys ---- */

template <uint32_t HEAD> DEVICE void grouped_clear(struct grouped_sums<HEAD> &sums)
{
    UNROLL
    for (uint32_t i = 0; i < HEAD / 16; i++) {
        UNROLL
        for (uint32_t j = 0; j < 4; j++)
            sums.o[i][j] = 0;
    }
    UNROLL
    for (uint32_t j = 0; j < 2; j++) {
        sums.m[j] = -INFINITY;
        sums.total[j] = 0;
    }
}

/* Products of key lane / 4 (and + 8) of the tile become scores. */
DEVICE void grouped_score(const struct attention_parameters &p, const struct grouped_tile &t,
                          uint32_t first, float (&s)[4])
{
    if (p.soft_cap != 0) {
        UNROLL
        for (uint32_t j = 0; j < 4; j++)
            s[j] = p.soft_cap * tanhf(s[j] / p.soft_cap);
    }
    if (grouped_is_within(t.plain, first))
        return;
    UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        const struct row row = grouped_row(p, t, threadIdx.x % 4 * 2 + i);
        UNROLL
        for (uint32_t j = i; j < 4; j += 2) {
            const uint32_t index = first + threadIdx.x % WARP / 4 + j / 2 * 8;
            const bool is_there = index >= t.keys.begin && index < t.keys.end;
            const float added = is_there ? added_to_score(p, *t.sequence, row, index) : -INFINITY;
            s[j] = added == -INFINITY ? added : s[j] + added;
        }
    }
}

/* Scores become weights, the sums are weighed by the new m, which is seldom another one. */
template <uint32_t HEAD> DEVICE void grouped_weigh(struct grouped_sums<HEAD> &sums, float (&s)[4])
{
    float factors[2];
    UNROLL
    for (uint32_t j = 0; j < 2; j++) {
        float largest = fmaxf(s[j], s[j + 2]);
        largest = fmaxf(largest, shuffle_xor(largest, 4));
        largest = fmaxf(largest, shuffle_xor(largest, 8));
        largest = fmaxf(largest, shuffle_xor(largest, 16));
        const float m = fmaxf(sums.m[j], ceilf(largest * LOG2_E));
        const float base = m == -INFINITY ? 0 : m;
        factors[j] = power_of_two(sums.m[j] - m);
        sums.m[j] = m;
        s[j] = exp2_fast(multiply_add(s[j], LOG2_E, -base));
        s[j + 2] = exp2_fast(multiply_add(s[j + 2], LOG2_E, -base));
        sums.total[j] = sums.total[j] * factors[j] + s[j] + s[j + 2];
    }
    if (vote_all(factors[0] == 1 && factors[1] == 1))
        return;
    UNROLL
    for (uint32_t i = 0; i < HEAD / 16; i++) {
        UNROLL
        for (uint32_t j = 0; j < 4; j++)
            sums.o[i][j] *= factors[j % 2];
    }
}

template <uint32_t HEAD, uint32_t BYTES, bool IS_BF16>
DEVICE void grouped_add(const struct attention_parameters &p, const struct grouped_tile &t,
                        const uint32_t (&q)[HEAD / 16][2], uint32_t first, uint32_t stage,
                        struct grouped_sums<HEAD> &sums)
{
    float s[4] = {0, 0, 0, 0};
    uint32_t a[4];
    UNROLL
    for (uint32_t k = 0; k < HEAD / 16; k++) {
        grouped_keys<HEAD, BYTES, IS_BF16>(p.cache, stage, k, a);
        tensor_multiply<IS_BF16>(s, a, q[k][0], q[k][1]);
    }
    grouped_score(p, t, first, s);
    grouped_weigh<HEAD>(sums, s);
    const uint32_t low = movmatrix(tensor_pack<IS_BF16>(s[0], s[1]));
    const uint32_t high = movmatrix(tensor_pack<IS_BF16>(s[2], s[3]));
    UNROLL
    for (uint32_t k = 0; k < HEAD / 16; k++) {
        grouped_values<HEAD, BYTES, IS_BF16>(p.cache, stage + 16 * HEAD * BYTES, k, a);
        tensor_multiply<IS_BF16>(sums.o[k], a, low, high);
    }
}

/* ---- a range ---- */

/* Of a warp and one of its stages: element i of a row. The four rows that a store meets lie in banks of their own. */
template <uint32_t HEAD, uint32_t BYTES>
DEVICE float *grouped_sum(const struct grouped_tile &t, uint32_t warp, uint32_t stage, uint32_t row,
                          uint32_t i)
{
    constexpr uint32_t STAGE = 2 * 16 * HEAD * BYTES;
    static_assert(STAGE >= GROUPED_ROWS * HEAD * sizeof(float), "sums lie in a stage");
    return (float *)(t.memory + (warp * 2 + stage) * STAGE) + row * HEAD + (i ^ row / 2 * 8);
}

/* m and total of a row. */
template <uint32_t HEAD, uint32_t BYTES>
DEVICE float *grouped_weights(const struct grouped_tile &t, uint32_t warp, uint32_t row)
{
    float *weights = (float *)(t.memory + GROUPED_WARPS * 4 * 16 * HEAD * BYTES);
    return weights + (warp * GROUPED_ROWS + row) * 2;
}

/* stage: that of the warp which nobody reads or loads. */
template <uint32_t HEAD, uint32_t BYTES>
DEVICE void grouped_share(const struct attention_parameters &p, const struct grouped_tile &t,
                          uint32_t stage, const struct grouped_sums<HEAD> &sums)
{
    const uint32_t lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const float unit = BYTES == 1 ? p.v_scale : 1;
    UNROLL
    for (uint32_t j = 0; j < 2; j++) {
        const uint32_t row = lane % 4 * 2 + j;
        float total = sums.total[j];
        total += shuffle_xor(total, 4);
        total += shuffle_xor(total, 8);
        total += shuffle_xor(total, 16);
        UNROLL
        for (uint32_t i = 0; i < HEAD / 16; i++) {
            const uint32_t at = i * 16 + lane / 4;
            *grouped_sum<HEAD, BYTES>(t, warp, stage, row, at) = sums.o[i][j] * unit;
            *grouped_sum<HEAD, BYTES>(t, warp, stage, row, at + 8) = sums.o[i][j + 2] * unit;
        }
        if (lane / 4 == 0) {
            float *weights = grouped_weights<HEAD, BYTES>(t, warp, row);
            weights[0] = sums.m[j];
            weights[1] = total;
        }
    }
}

/* One row of what the warps have shared, in their order; m is a score behind it, as attention_merge has it. */
template <uint32_t HEAD, uint32_t BYTES>
DEVICE void grouped_merge(const struct grouped_tile &t, uint32_t stage, uint32_t row,
                          struct row_sums<HEAD / WARP> &range)
{
    float m[GROUPED_WARPS], totals[GROUPED_WARPS];
    clear_sums(range);
    UNROLL
    for (uint32_t w = 0; w < GROUPED_WARPS; w++) {
        const float *weights = grouped_weights<HEAD, BYTES>(t, w, row);
        m[w] = weights[0];
        totals[w] = weights[1];
        range.m = fmaxf(range.m, m[w]);
    }
    UNROLL
    for (uint32_t w = 0; w < GROUPED_WARPS; w++) {
        const float factor = power_of_two(m[w] - range.m);
        range.total = multiply_add(totals[w], factor, range.total);
        UNROLL
        for (uint32_t c = 0; c < HEAD / WARP; c++)
            range.sums[c] = multiply_add(
                *grouped_sum<HEAD, BYTES>(t, w, stage, row, c * WARP + threadIdx.x % WARP), factor,
                range.sums[c]);
    }
    range.m *= LOG_2;
}

/* A range by itself goes to the partials, else it is merged with those before it. */
template <uint32_t HEAD, uint32_t BYTES>
DEVICE void grouped_finish(const struct attention_parameters &p, const struct grouped_tile &t,
                           uint32_t number, uint32_t stage, const struct grouped_sums<HEAD> &sums,
                           struct row_sums<HEAD / WARP> (&all)[2])
{
    grouped_share<HEAD, BYTES>(p, t, stage, sums);
    cta_sync();
    UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t column = threadIdx.x / WARP + i * GROUPED_WARPS;
        struct row_sums<HEAD / WARP> range;
        if (column >= t.n_rows)
            continue;
        grouped_merge<HEAD, BYTES>(t, stage, column, range);
        if (p.n_ranges != 0)
            store_partial(p, grouped_row(p, t, column), number, range);
        else
            merge_range(MATH_IS_COMPUTE, range, all[i]);
    }
    cta_sync();
}

/* Ranges from first to last. */
template <uint32_t HEAD, uint32_t BYTES, bool IS_BF16>
DEVICE void grouped_attend(const struct attention_parameters &p, const struct grouped_tile &t,
                           uint32_t first, uint32_t last, struct row_sums<HEAD / WARP> (&all)[2])
{
    constexpr uint32_t STAGE = 2 * 16 * HEAD * BYTES, STEP = 16 * GROUPED_WARPS;
    const struct grouped_blocks blocks = grouped_blocks_of<HEAD * BYTES>(p, t);
    const uint32_t end = last * ATTENTION_RANGE_KEYS;
    uint32_t q[HEAD / 16][2], now = 0;
    uint32_t key = first * ATTENTION_RANGE_KEYS + threadIdx.x / WARP * 16;
    uint32_t block = grouped_block(t, blocks, key);
    struct grouped_sums<HEAD> sums;
    grouped_load<HEAD, BYTES>(p, t, blocks, block, key, t.stages);
    cp_async_commit();
    block = grouped_block(t, blocks, key + STEP);
    grouped_load_queries<HEAD, IS_BF16>(p, t, q);
    for (; key < end; key += STEP, now ^= 1) {
        if (key % ATTENTION_RANGE_KEYS < STEP)
            grouped_clear<HEAD>(sums);
        if (key + STEP < end)
            grouped_load<HEAD, BYTES>(p, t, blocks, block, key + STEP,
                                      t.stages + (now ^ 1) * STAGE);
        cp_async_commit();
        block = grouped_block(t, blocks, key + 2 * STEP);
        cp_async_wait<1>();
        warp_sync();
        grouped_add<HEAD, BYTES, IS_BF16>(p, t, q, key, t.stages + now * STAGE, sums);
        warp_sync();
        if ((key + STEP) % ATTENTION_RANGE_KEYS < STEP)
            grouped_finish<HEAD, BYTES>(p, t, key / ATTENTION_RANGE_KEYS, now, sums, all);
    }
    cp_async_wait<0>();
}

template <uint32_t HEAD>
DEVICE void grouped_store(const struct attention_parameters &p, const struct grouped_tile &t,
                          const struct row_sums<HEAD / WARP> (&all)[2])
{
    UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t column = threadIdx.x / WARP + i * GROUPED_WARPS;
        if (column < t.n_rows)
            store_row(p, MATH_IS_COMPUTE, grouped_row(p, t, column), all[i]);
    }
}

/* The ranges of a CTA, of those that some row of the tile sees. */
DEVICE struct key_range grouped_ranges(const struct attention_parameters &p,
                                       const struct grouped_tile &t)
{
    struct key_range ranges = {t.keys.begin / ATTENTION_RANGE_KEYS,
                               (t.keys.end + ATTENTION_RANGE_KEYS - 1) / ATTENTION_RANGE_KEYS};
    if (p.n_ranges != 0 && ranges.begin < ranges.end) {
        const uint32_t share = (ranges.end - ranges.begin + gridDim.z - 1) / gridDim.z;
        ranges.begin += blockIdx.z * share;
        ranges.end = ranges.begin + share < ranges.end ? ranges.begin + share : ranges.end;
    }
    return ranges;
}

/* BYTES: of an element of the cache. */
template <uint32_t HEAD, uint32_t BYTES, bool IS_BF16>
DEVICE void attention_grouped_body(const struct attention_parameters &p)
{
    SHARED_MEMORY(memory);
    if (p.first_tile + blockIdx.x >= p.counts->n_tiles)
        return;
    struct grouped_tile t = grouped_tile_of<HEAD, BYTES>(p, memory);
    const bool is_dummy = t.sequence->kind == SEQUENCE_IS_DUMMY, is_part = p.n_ranges != 0;
    struct row_sums<HEAD / WARP> all[2];
    if (t.n_rows == 0 || (is_part && is_dummy))
        return;
    UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        clear_sums(all[i]);
        if (!is_dummy)
            begin_sums(p, MATH_IS_COMPUTE,
                       grouped_row(p, t, threadIdx.x / WARP + i * GROUPED_WARPS).head, all[i]);
    }
    if (!is_dummy) {
        grouped_find_keys(p, t);
        const struct key_range ranges = grouped_ranges(p, t);
        if (ranges.begin < ranges.end)
            grouped_attend<HEAD, BYTES, IS_BF16>(p, t, ranges.begin, ranges.end, all);
    }
    if (!is_part)
        grouped_store<HEAD>(p, t, all);
}
