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
    bool is_near;               /* a tile of keys that all are there lies in one block */
    uint32_t stages;            /* of the warp */
    uint8_t *memory;            /* shared */
};

/* Where tiles of near keys lie: a lane's part of one is 16 bytes of every so many rows. */
struct grouped_blocks {
    const uint32_t *ids;
    const uint8_t *base; /* of block 0 and the kv head, the lane's row and 16 bytes */
    uint32_t shift;      /* log2 of a block's tokens; 31: all is one block */
};

/* Of a warp and a range: elements 16 i + lane / 4 (and + 8), of 8 bits 16 i + lane / 4 * 2 (and the next one), of rows
 * lane % 4 * 2 and the next one. total is the lane's. */
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
    t.is_near = is_whole && !p.is_cyclic && t.sequence->first_source == ATTENTION_NONE;
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
    t.keys = t.plain = {0, 0};
    t.is_near = false;
    t.stages = shared_address(memory) + threadIdx.x / WARP * OF_WARP;
    t.memory = memory;
    return t;
}

/* ---- operands ---- */

/* Of a row of Q that is what element i of the head is multiplied with: times the factor of the scores and the unit of K. */
template <bool IS_BF16>
DEVICE uint32_t grouped_query_pair(float factor, uint32_t low, uint32_t high)
{
    const float a = bits_float(low) * factor, b = bits_float(high) * factor;
    return IS_BF16 ? pack_bf16(a, b) : pack_f16(clamp_f16(a), clamp_f16(b));
}

/*
 * Q of column lane / 4. Of sixteen elements the products take first the eight first ones and then the others; where K has
 * 8 bits, first the even ones and then the odd ones, as grouped_widen has them.
 */
template <uint32_t HEAD, uint32_t BYTES, bool IS_BF16>
DEVICE void grouped_load_queries(const struct attention_parameters &p, const struct grouped_tile &t,
                                 uint32_t (&q)[HEAD / 16][2])
{
    const uint32_t lane = threadIdx.x % WARP;
    const float factor = p.scale * (BYTES == 1 ? p.k_scale : 1);
    const struct row row = grouped_row(p, t, lane / 4);
    const float *query = p.queries + ((uint64_t)row.token * p.n_heads + row.head) * HEAD;
    UNROLL
    for (uint32_t k = 0; k < HEAD / 16; k++) {
        if constexpr (BYTES == 1) {
            uint32_t four[4];
            load_vector16(four, query + k * 16 + lane % 4 * 4);
            q[k][0] = grouped_query_pair<IS_BF16>(factor, four[0], four[2]);
            q[k][1] = grouped_query_pair<IS_BF16>(factor, four[1], four[3]);
        } else {
            UNROLL
            for (uint32_t i = 0; i < 2; i++) {
                uint32_t two[2];
                load_vector8(two, query + k * 16 + i * 8 + lane % 4 * 2);
                q[k][i] = grouped_query_pair<IS_BF16>(factor, two[0], two[1]);
            }
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
    return t.is_near && grouped_is_within(t.keys, first) ? blocks.ids[first >> blocks.shift] : 0;
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
    if (t.is_near && grouped_is_within(t.keys, first)) {
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

template <bool IS_BF16> DEVICE void grouped_widen_e4m3(uint32_t word, uint32_t (&pairs)[2])
{
    if (IS_BF16) {
        const uint32_t low = e4m3x2_to_f16x2(word), high = e4m3x2_to_f16x2(word >> 16);
        pairs[0] = pack_bf16(f16_to_float((uint16_t)low), f16_to_float((uint16_t)high));
        pairs[1] = pack_bf16(f16_to_float((uint16_t)(low >> 16)),
                             f16_to_float((uint16_t)(high >> 16)));
    } else {
        pairs[0] = e4m3x2_to_f16x2(byte_permute(word, 0, 0x4420));
        pairs[1] = e4m3x2_to_f16x2(byte_permute(word, 0, 0x4431));
    }
}

template <bool IS_BF16> DEVICE void grouped_widen_int8(uint32_t word, uint32_t (&pairs)[2])
{
    if (!IS_BF16)
        word ^= 0x80808080;
    UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t which = i ? 0x4341 : 0x4240; /* a byte, and what makes a float of it */
        if (IS_BF16) { /* 128 and seven bits, less 128, or 256 where the sign is set */
            const uint32_t x = byte_permute(word, 0x43434343, which);
            pairs[i] = multiply_add_bf16x2(x & 0xff80ff80, 0xbf80bf80, x & 0xff7fff7f);
        } else { /* 1024 + 128 and what it is, less 1152 */
            const uint32_t x = byte_permute(word, 0x64646464, which);
            pairs[i] = multiply_add_f16x2(x, 0x3c003c00, 0xe480e480);
        }
    }
}

/* Bytes 0 and 2 of a word, then 1 and 3, exactly. */
template <uint32_t CACHE, bool IS_BF16>
DEVICE void grouped_widen(uint32_t word, uint32_t (&pairs)[2])
{
    if (CACHE == DTYPE_E4M3)
        grouped_widen_e4m3<IS_BF16>(word, pairs);
    else
        grouped_widen_int8<IS_BF16>(word, pairs);
}

/* A lane's part of elements 32 i ... of 16 keys' rows: of 16 bits each half of them, of 8 bits all. */
template <uint32_t BYTES> DEVICE uint32_t grouped_place(uint32_t stage, uint32_t i)
{
    const uint32_t lane = threadIdx.x % WARP;
    return (stage + tensor_place<BYTES>(lane % 16, lane / 16)) ^ i << 5;
}

/* 16 keys times Q. */
template <uint32_t HEAD, uint32_t CACHE, bool IS_BF16>
DEVICE void grouped_multiply_keys(uint32_t stage, const uint32_t (&q)[HEAD / 16][2], float (&s)[4])
{
    uint32_t a[4];
    if constexpr (!grouped_is_narrow(CACHE)) {
        UNROLL
        for (uint32_t k = 0; k < HEAD / 16; k++) {
            ldmatrix_x4(a, grouped_place<HEAD * 2>(stage, k));
            tensor_multiply<IS_BF16>(s, a, q[k][0], q[k][1]);
        }
    } else {
        UNROLL
        for (uint32_t k = 0; k < HEAD / 16; k += 2) {
            uint32_t words[4], low[2], high[2];
            ldmatrix_x4(words, grouped_place<HEAD>(stage, k / 2));
            UNROLL
            for (uint32_t i = 0; i < 2; i++) {
                grouped_widen<CACHE, IS_BF16>(words[2 * i], low);
                grouped_widen<CACHE, IS_BF16>(words[2 * i + 1], high);
                a[0] = low[0], a[1] = high[0], a[2] = low[1], a[3] = high[1];
                tensor_multiply<IS_BF16>(s, a, q[k + i][0], q[k + i][1]);
            }
        }
    }
}

/* V of 16 keys times p: of 8 bits even elements of sixteen are rows 0 to 7 of a product, odd ones the others. */
template <uint32_t HEAD, uint32_t CACHE, bool IS_BF16>
DEVICE void grouped_multiply_values(uint32_t stage, uint32_t p_low, uint32_t p_high,
                                    float (&o)[HEAD / 16][4])
{
    const uint32_t lane = threadIdx.x % WARP;
    uint32_t a[4];
    if constexpr (!grouped_is_narrow(CACHE)) {
        const uint32_t at = stage + tensor_place<HEAD * 2>(lane / 16 * 8 + lane % 8, lane / 8 % 2);
        UNROLL
        for (uint32_t k = 0; k < HEAD / 16; k++) {
            ldmatrix_x4_trans(a, at ^ k << 5);
            tensor_multiply<IS_BF16>(o[k], a, p_low, p_high);
        }
    } else {
        UNROLL
        for (uint32_t k = 0; k < HEAD / 16; k += 2) {
            uint32_t words[4], low[2], high[2];
            ldmatrix_x4_trans(words, grouped_place<HEAD>(stage, k / 2));
            UNROLL
            for (uint32_t i = 0; i < 2; i++) {
                grouped_widen<CACHE, IS_BF16>(words[2 * i], low);
                grouped_widen<CACHE, IS_BF16>(words[2 * i + 1], high);
                a[0] = low[0], a[1] = low[1], a[2] = high[0], a[3] = high[1];
                tensor_multiply<IS_BF16>(o[k + i], a, p_low, p_high);
            }
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

template <uint32_t HEAD, uint32_t CACHE, bool IS_BF16>
DEVICE void grouped_add(const struct attention_parameters &p, const struct grouped_tile &t,
                        const uint32_t (&q)[HEAD / 16][2], uint32_t first, uint32_t stage,
                        struct grouped_sums<HEAD> &sums)
{
    constexpr uint32_t OF_KEYS = 16 * HEAD * grouped_bytes(CACHE);
    float s[4] = {0, 0, 0, 0};
    grouped_multiply_keys<HEAD, CACHE, IS_BF16>(stage, q, s);
    grouped_score(p, t, first, s);
    grouped_weigh<HEAD>(sums, s);
    const uint32_t low = movmatrix(tensor_pack<IS_BF16>(s[0], s[1]));
    const uint32_t high = movmatrix(tensor_pack<IS_BF16>(s[2], s[3]));
    grouped_multiply_values<HEAD, CACHE, IS_BF16>(stage + OF_KEYS, low, high, sums.o);
}

/* ---- a range ---- */

/*
 * Sums in a warp's stage: element i of a row is at row HEAD + (i ^ row / 2 * 8), so that the four rows that a store meets
 * lie in banks of their own.
 */
template <uint32_t HEAD, uint32_t BYTES>
DEVICE float *grouped_sums_of(const struct grouped_tile &t, uint32_t warp, uint32_t stage)
{
    constexpr uint32_t STAGE = 2 * 16 * HEAD * BYTES;
    static_assert(STAGE >= GROUPED_ROWS * HEAD * sizeof(float), "sums lie in a stage");
    return (float *)(t.memory + (warp * 2 + stage) * STAGE);
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
    const uint32_t row = lane % 4 * 2, step = BYTES == 1 ? 2 : 1;
    const uint32_t at = row * HEAD + (lane / 4 * step ^ row / 2 * 8);
    float *shared = grouped_sums_of<HEAD, BYTES>(t, warp, stage);
    UNROLL
    for (uint32_t j = 0; j < 2; j++) {
        float total = sums.total[j];
        total += shuffle_xor(total, 4);
        total += shuffle_xor(total, 8);
        total += shuffle_xor(total, 16);
        UNROLL
        for (uint32_t i = 0; i < HEAD / 16; i++) {
            const uint32_t pair[2] = {float_bits(sums.o[i][j] * unit),
                                      float_bits(sums.o[i][j + 2] * unit)};
            float *of_row = shared + i / 2 * 32 + j * HEAD;
            if (BYTES == 1) {
                store_vector8(of_row + (at ^ i % 2 * 16), pair);
            } else {
                of_row[at ^ i % 2 * 16] = bits_float(pair[0]);
                of_row[at ^ (i % 2 * 16 + 8)] = bits_float(pair[1]);
            }
        }
        if (lane / 4 == 0) {
            float *weights = grouped_weights<HEAD, BYTES>(t, warp, row + j);
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
        const float *sums = grouped_sums_of<HEAD, BYTES>(t, w, stage) + row * HEAD;
        const float factor = power_of_two(m[w] - range.m);
        range.total = multiply_add(totals[w], factor, range.total);
        UNROLL
        for (uint32_t c = 0; c < HEAD / WARP; c++)
            range.sums[c] = multiply_add(sums[c * WARP + (threadIdx.x % WARP ^ row / 2 * 8)],
                                         factor, range.sums[c]);
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

/* Whether some row sees one of the warp's 16 keys. */
DEVICE bool grouped_has_keys(const struct grouped_tile &t, uint32_t first)
{
    return first < t.keys.end && first + 16 > t.keys.begin;
}

/* Ranges from first to last. Their turns are even: a range ends in the second stage. */
template <uint32_t HEAD, uint32_t CACHE, bool IS_BF16>
DEVICE void grouped_attend(const struct attention_parameters &p, const struct grouped_tile &t,
                           uint32_t first, uint32_t last, struct row_sums<HEAD / WARP> (&all)[2])
{
    constexpr uint32_t BYTES = grouped_bytes(CACHE);
    constexpr uint32_t STAGE = 2 * 16 * HEAD * BYTES, STEP = 16 * GROUPED_WARPS;
    static_assert(GROUPED_TURNS % 2 == 0, "stages go by turns");
    const struct grouped_blocks blocks = grouped_blocks_of<HEAD * BYTES>(p, t);
    const uint32_t end = last * ATTENTION_RANGE_KEYS;
    uint32_t q[HEAD / 16][2], key = first * ATTENTION_RANGE_KEYS + threadIdx.x / WARP * 16;
    uint32_t block = grouped_block(t, blocks, key);
    struct grouped_sums<HEAD> sums;
    if (grouped_has_keys(t, key))
        grouped_load<HEAD, BYTES>(p, t, blocks, block, key, t.stages);
    cp_async_commit();
    block = grouped_block(t, blocks, key + STEP);
    grouped_load_queries<HEAD, BYTES, IS_BF16>(p, t, q);
    while (key < end) {
        grouped_clear<HEAD>(sums);
        for (uint32_t turn = 0; turn < GROUPED_TURNS; turn++, key += STEP) {
            const uint32_t now = turn % 2 * STAGE, next = key + STEP;
            if (next < end && grouped_has_keys(t, next))
                grouped_load<HEAD, BYTES>(p, t, blocks, block, next, t.stages + (now ^ STAGE));
            cp_async_commit();
            block = grouped_block(t, blocks, next + STEP);
            cp_async_wait<1>();
            warp_sync();
            if (grouped_has_keys(t, key))
                grouped_add<HEAD, CACHE, IS_BF16>(p, t, q, key, t.stages + now, sums);
            warp_sync();
        }
        grouped_finish<HEAD, BYTES>(p, t, (key - STEP) / ATTENTION_RANGE_KEYS, 1, sums, all);
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

template <uint32_t HEAD, uint32_t BYTES, bool IS_BF16>
DEVICE void grouped_attend_cache(const struct attention_parameters &p, const struct grouped_tile &t,
                                 const struct key_range &ranges,
                                 struct row_sums<HEAD / WARP> (&all)[2])
{
    constexpr uint32_t OWN = IS_BF16 ? DTYPE_BF16 : DTYPE_F16;
    if constexpr (BYTES == 2)
        grouped_attend<HEAD, OWN, IS_BF16>(p, t, ranges.begin, ranges.end, all);
    else if (p.cache == DTYPE_INT8)
        grouped_attend<HEAD, DTYPE_INT8, IS_BF16>(p, t, ranges.begin, ranges.end, all);
    else
        grouped_attend<HEAD, DTYPE_E4M3, IS_BF16>(p, t, ranges.begin, ranges.end, all);
}

/* BYTES: of an element of the cache. */
template <uint32_t HEAD, uint32_t BYTES, bool IS_BF16>
DEVICE void attention_grouped_body(const struct attention_parameters &p)
{
    SHARED_MEMORY(memory);
    struct grouped_tile t = grouped_tile_of<HEAD, BYTES>(p, memory); /* under way with the counts */
    if (p.first_tile + blockIdx.x >= p.counts->n_tiles)
        return;
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
            grouped_attend_cache<HEAD, BYTES, IS_BF16>(p, t, ranges, all);
    }
    if (!is_part)
        grouped_store<HEAD>(p, t, all);
}
