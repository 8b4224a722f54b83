/*
 * attention_grouped - computes generation on tensor cores (mma.sync m16n8k16) with MATH_BF16 and MATH_FP16, over a cache of
 * the math's 16-bit type or of 8 bits; heads of 64 and 128.
 *
 * Grid: x a tile of queries (cuda_tile), y eight of its rows (columns of the products) of a kv head, z a share of the ranges
 * of keys if partial sums are wanted: the device reads the number of ranges, and each range has its own partial sums. K is
 * the left operand: a warp multiplies 16 keys at a time, from its own ring of two stages of cp.async. The four warps take tiles
 * in turn, and ranges (ATTENTION_RANGE_KEYS) are merged in order. At the end of a range a warp's sums are in its last stage:
 *
 *     stages  [warp][2][K, V][16][HEAD], or [warp][2][8 rows][HEAD]     weights  [warp][8 rows][m, total]
 *
 * Tiles begin at fixed positions and m is a multiple of log 2, so the bits of a row depend only on its keys. A slot that no row
 * of the tile sees is not read: its elements are zeros. Bound: loads of the cache.
 * Oracle: kernels/reference/attention_row.c within the dtype.
 */
#pragma once

#include "kernels/cuda/attention_grouped_operands.cuh"

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

/* Turns the products of keys lane / 4 and lane / 4 + 8 of the tile into scores. */
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

/* Turns scores into weights, and scales the sums for the new m, which seldom changes. */
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
 * Where sums are in a warp's stage: element i of a row is at row HEAD + (i ^ row / 2 * 8), so that the four rows of one store
 * are in different banks.
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

/* stage: the stage of the warp that is not read or loaded now. */
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

/* Merges one row of the sums that the warps have shared, in their order. At the end m is a score, as in attention_merge. */
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

/* Stores the range in the partials if there are any, else merges it with the ranges before. */
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

/* Computes ranges from first to last. The number of turns is even, so a range ends in the second stage. */
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

/* The ranges of a CTA, among those that some row of the tile sees. */
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

/* BYTES: the bytes of an element of the cache. */
template <uint32_t HEAD, uint32_t BYTES, bool IS_BF16>
DEVICE void attention_grouped_body(const struct attention_parameters &p)
{
    SHARED_MEMORY(memory);
    struct grouped_tile t = grouped_tile_of<HEAD, BYTES>(p, memory); /* loaded with the counts */
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
