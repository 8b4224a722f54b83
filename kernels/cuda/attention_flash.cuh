/*
 * attention_flash - computes prompts on tensor cores (mma.sync m16n8k16): MATH_BF16 over a BF16 cache, MATH_FP16 over an F16
 * cache, heads of 64 and 128, causal, with or without a window and learned sinks.
 *
 * Grid: x a tile of a context's queries (cuda_tile of up to ATTENTION_FLASH_ROWS), longest first; y a head. A warp has 16
 * rows, whose Q stays in registers; cp.async loads K and V, each in two stages:
 *
 *     stages  [K, K, V, V][FLASH_KEYS][HEAD]     after the last key: [rows][HEAD + 4] sums
 *
 * Tiles of keys begin at multiples of FLASH_KEYS, m is a multiple of log 2: sums are scaled exactly, by powers of two, and
 * a tile that a row does not see changes none of its bits. So the bits depend only on the keys of the row, not on its tile,
 * its chunk or the blocks. Slots that no row of the tile sees are not read: their elements are zeros.
 * Bound: tensor cores. Oracle: kernels/reference/attention_row.c within the dtype; here an infinity in an F16 cache stays
 * an infinity.
 */
#pragma once

#include "kernels/cuda/attention_tensor.cuh"

#define FLASH_KEYS  64u
#define FLASH_STAGE (FLASH_KEYS * 2) /* bytes, times HEAD */

struct flash_tile {
    struct cuda_tile tile;
    const struct cuda_sequence *sequence;
    uint32_t head, kv_head;
    uint32_t first_index;  /* index of the first query */
    uint32_t warp_index;   /* index of the warp's first query */
    struct key_range keys; /* keys that some row sees: not whole tiles */
};

/* The sums of rows lane / 4 and lane / 4 + 8 of the warp: elements 8 i + lane % 4 * 2 and the next one. total is the part of the
 * lane. */
template <uint32_t HEAD> struct flash_sums {
    float o[HEAD / 8][4];
    float m[2], total[2];
};

/* The number of this warp among the four that have the rows of a tile and head. */
DEVICE uint32_t flash_warp()
{
    return threadIdx.x / WARP % 4;
}

DEVICE struct flash_tile flash_tile_of(const struct attention_parameters &p, uint32_t tile,
                                       uint32_t head)
{
    struct flash_tile t;
    t.tile = p.tiles[tile];
    t.sequence = &p.sequences[t.tile.sequence];
    t.head = head;
    t.kv_head = t.head / (p.n_heads / p.n_kv_heads);
    t.first_index = p.indices[t.tile.first_token];
    t.warp_index = t.first_index + flash_warp() * 16;
    t.keys.begin = p.window != 0 && t.first_index >= p.window ? t.first_index - p.window + 1 : 0;
    t.keys.end = t.first_index + t.tile.n_tokens;
    return t;
}

/* ---- operands ---- */

/* Loads the queries that attention_update has packed (packs_queries). */
template <uint32_t HEAD>
DEVICE void flash_load_queries(const struct attention_parameters &p, const struct flash_tile &t,
                               uint32_t (&q)[HEAD / 16][4])
{
    const uint32_t lane = threadIdx.x % WARP, first = flash_warp() * 16 + lane / 4;
    UNROLL
    for (uint32_t k = 0; k < HEAD / 16; k++) {
        UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t row = first + i % 2 * 8;
            const uint64_t at = (uint64_t)(t.tile.first_token + row) * p.n_heads + t.head;
            q[k][i] = 0;
            if (row < t.tile.n_tokens)
                q[k][i] = ((const uint32_t *)(p.queries + at * HEAD))[k * 8 + i / 2 * 4 + lane % 4];
        }
    }
}

/* The addresses of the lane's key, number lane % 16 of the warp's 16, in the tile from first on; 0: no row sees it. */
struct flash_key {
    uint64_t k, v;
};

DEVICE struct flash_key flash_find(const struct attention_parameters &p, const struct flash_tile &t,
                                   uint32_t first)
{
    const uint32_t index = first + flash_warp() * 16 + threadIdx.x % 16;
    if (index < t.keys.begin || index >= t.keys.end)
        return {0, 0};
    const struct key_place place = find_key(p, *t.sequence, t.tile.beam, t.kv_head, index);
    return {(uint64_t)(uintptr_t)place.k, (uint64_t)(uintptr_t)(place.k + place.v_bytes)};
}

/* Loads the warp's 16 rows of a stage. */
template <uint32_t HEAD>
DEVICE void flash_load(const struct attention_parameters &p, uint32_t stage, uint64_t address)
{
    load_rows<HEAD * 2>(stage + flash_warp() * 16 * HEAD * 2, address, p.queries);
    cp_async_commit();
}

/* ---- a tile of keys ---- */

/* Computes the scores. s[i]: keys 8 i + lane % 4 * 2 and the next one, for both rows. */
template <uint32_t HEAD, bool IS_BF16>
DEVICE void flash_score(uint32_t stage, const uint32_t (&q)[HEAD / 16][4],
                        float (&s)[FLASH_KEYS / 8][4])
{
    const uint32_t lane = threadIdx.x % WARP;
    UNROLL
    for (uint32_t i = 0; i < FLASH_KEYS / 8; i++) {
        UNROLL
        for (uint32_t j = 0; j < 4; j++)
            s[i][j] = 0;
    }
    UNROLL
    for (uint32_t k = 0; k < HEAD / 16; k++) {
        UNROLL
        for (uint32_t n = 0; n < FLASH_KEYS / 16; n++) {
            const uint32_t row = n * 16 + lane / 16 * 8 + lane % 8;
            uint32_t b[4];
            ldmatrix_x4(b, stage + tensor_place<HEAD * 2>(row, k * 2 + lane / 8 % 2));
            tensor_multiply<IS_BF16>(s[2 * n], q[k], b[0], b[1]);
            tensor_multiply<IS_BF16>(s[2 * n + 1], q[k], b[2], b[3]);
        }
    }
}

/* Hides the keys that a row does not see. No row sees a key after the last one of the sequence. */
DEVICE void flash_hide(const struct attention_parameters &p, const struct flash_tile &t,
                       uint32_t first, float (&s)[FLASH_KEYS / 8][4])
{
    const uint32_t lane = threadIdx.x % WARP;
    if (first + FLASH_KEYS <= t.warp_index + 1 &&
        (p.window == 0 || t.warp_index + 15 < first + p.window))
        return;
    UNROLL
    for (uint32_t i = 0; i < FLASH_KEYS / 8; i++) {
        UNROLL
        for (uint32_t j = 0; j < 4; j++) {
            const uint32_t key = first + i * 8 + lane % 4 * 2 + j % 2;
            const uint32_t index = t.warp_index + lane / 4 + j / 2 * 8;
            if (key > index || (p.window != 0 && index - key >= p.window))
                s[i][j] = -INFINITY;
        }
    }
}

/* Turns scores into weights. factor: the factors for the sums of both rows. */
template <uint32_t HEAD>
DEVICE void flash_weigh(struct flash_sums<HEAD> &sums, float (&s)[FLASH_KEYS / 8][4],
                        float (&factor)[2])
{
    UNROLL
    for (uint32_t j = 0; j < 2; j++) {
        float largest = -INFINITY;
        UNROLL
        for (uint32_t i = 0; i < FLASH_KEYS / 8; i++)
            largest = fmaxf(largest, fmaxf(s[i][2 * j], s[i][2 * j + 1]));
        largest = fmaxf(largest, shuffle_xor(largest, 1));
        largest = fmaxf(largest, shuffle_xor(largest, 2));
        const float m = fmaxf(sums.m[j], ceilf(largest * LOG2_E));
        const float base = m == -INFINITY ? 0 : m;
        factor[j] = power_of_two(sums.m[j] - m);
        sums.m[j] = m;
        sums.total[j] *= factor[j];
        UNROLL
        for (uint32_t i = 0; i < FLASH_KEYS / 8; i++)
            UNROLL
        for (uint32_t c = 2 * j; c < 2 * j + 2; c++) {
            s[i][c] = exp2_fast(multiply_add(s[i][c], LOG2_E, -base));
            sums.total[j] += s[i][c];
        }
    }
}

/* Scales the sums. m seldom grows, so most factors are 1. */
template <uint32_t HEAD>
DEVICE void flash_scale(const float (&factor)[2], struct flash_sums<HEAD> &sums)
{
    if (vote_all(factor[0] == 1 && factor[1] == 1))
        return;
    UNROLL
    for (uint32_t i = 0; i < HEAD / 8; i++) {
        UNROLL
        for (uint32_t j = 0; j < 4; j++)
            sums.o[i][j] *= factor[j / 2];
    }
}

/* Rounds the weights of the 16 keys from 16 k on for the product. */
template <bool IS_BF16>
DEVICE void flash_pack(const float (&s)[FLASH_KEYS / 8][4], uint32_t k, uint32_t (&a)[4])
{
    UNROLL
    for (uint32_t i = 0; i < 4; i++)
        a[i] = tensor_pack<IS_BF16>(s[2 * k + i / 2][i % 2 * 2], s[2 * k + i / 2][i % 2 * 2 + 1]);
}

template <uint32_t HEAD, bool IS_BF16>
DEVICE void flash_add(uint32_t stage, const float (&s)[FLASH_KEYS / 8][4],
                      struct flash_sums<HEAD> &sums)
{
    const uint32_t lane = threadIdx.x % WARP;
    UNROLL
    for (uint32_t k = 0; k < FLASH_KEYS / 16; k++) {
        uint32_t a[4];
        flash_pack<IS_BF16>(s, k, a);
        UNROLL
        for (uint32_t n = 0; n < HEAD / 16; n++) {
            const uint32_t row = k * 16 + lane / 8 % 2 * 8 + lane % 8;
            uint32_t b[4];
            ldmatrix_x4_trans(b, stage + tensor_place<HEAD * 2>(row, n * 2 + lane / 16));
            tensor_multiply<IS_BF16>(sums.o[2 * n], a, b[0], b[1]);
            tensor_multiply<IS_BF16>(sums.o[2 * n + 1], a, b[2], b[3]);
        }
    }
}

/* ---- a tile of queries ---- */

/* Sets the sums before the first key. Of the four lanes of a row, one has the learned sink. */
template <uint32_t HEAD>
DEVICE void flash_begin(const struct attention_parameters &p, const struct flash_tile &t,
                        struct flash_sums<HEAD> &sums)
{
    const bool has_sink = p.sinks && p.sinks[t.head] != -INFINITY &&
                          t.sequence->kind != SEQUENCE_IS_DUMMY;
    const float sink = has_sink ? p.sinks[t.head] * LOG2_E : 0;
    UNROLL
    for (uint32_t i = 0; i < HEAD / 8; i++) {
        UNROLL
        for (uint32_t j = 0; j < 4; j++)
            sums.o[i][j] = 0;
    }
    UNROLL
    for (uint32_t j = 0; j < 2; j++) {
        sums.m[j] = has_sink ? ceilf(sink) : -INFINITY;
        sums.total[j] = has_sink && threadIdx.x % 4 == 0 ? exp2_fast(sink - sums.m[j]) : 0;
    }
}

/* stages: two for K and two for V. A stage is loaded again when all warps have passed the barrier after its use. */
template <uint32_t HEAD, bool IS_BF16>
DEVICE void flash_attend(const struct attention_parameters &p, const struct flash_tile &t,
                         uint32_t stages, struct flash_sums<HEAD> &sums)
{
    constexpr uint32_t BYTES = FLASH_STAGE * HEAD;
    uint32_t first = t.keys.begin / FLASH_KEYS * FLASH_KEYS, now = 0;
    uint32_t q[HEAD / 16][4];
    struct flash_key key = flash_find(p, t, first);
    flash_load<HEAD>(p, stages, key.k);
    flash_load<HEAD>(p, stages + 2 * BYTES, key.v);
    flash_load_queries<HEAD>(p, t, q);
    for (; first < t.keys.end; first += FLASH_KEYS, now ^= 1) {
        float s[FLASH_KEYS / 8][4], factor[2];
        cp_async_wait<1>(); /* V may be under way */
        cta_sync();
        key = flash_find(p, t, first + FLASH_KEYS);
        flash_load<HEAD>(p, stages + (now ^ 1) * BYTES, key.k);
        flash_score<HEAD, IS_BF16>(stages + now * BYTES, q, s);
        flash_hide(p, t, first, s);
        flash_weigh<HEAD>(sums, s, factor);
        flash_scale<HEAD>(factor, sums);
        cp_async_wait<1>(); /* the next K may be */
        cta_sync();
        flash_load<HEAD>(p, stages + (2 + (now ^ 1)) * BYTES, key.v);
        flash_add<HEAD, IS_BF16>(stages + (2 + now) * BYTES, s, sums);
    }
    cp_async_wait<0>();
    cta_sync();
}

/* Whether rows are written as BF16, four elements at a time. */
DEVICE bool has_wide_output(const struct attention_parameters &p)
{
    return p.compute == DTYPE_BF16 && p.output_scale == 0 &&
           ((uintptr_t)p.output | p.output_stride * 2) % 8 == 0;
}

/* As store_row, for all rows of the warp. */
template <uint32_t HEAD>
DEVICE void flash_store_wide(const struct attention_parameters &p, const struct flash_tile &t,
                             const float *rows)
{
    constexpr uint32_t WIDTH = HEAD + 4, LANES = HEAD / 4;
    const uint32_t first = flash_warp() * 16, at = threadIdx.x % WARP % LANES * 4;
    for (uint32_t r = threadIdx.x % WARP / LANES; r < 16 && first + r < t.tile.n_tokens;
         r += WARP / LANES) {
        const uint64_t row = p.token_rows[t.tile.first_token + first + r];
        const float total = rows[r * WIDTH + HEAD + 1];
        uint32_t sums[4], packed[2];
        load_shared16(sums, shared_address(&rows[r * WIDTH + at]));
        UNROLL
        for (uint32_t c = 0; c < 2; c++)
            packed[c] = pack_bf16(total == 0 ? 0 : bits_float(sums[2 * c]) / total,
                                  total == 0 ? 0 : bits_float(sums[2 * c + 1]) / total);
        store_vector8((uint16_t *)p.output + row * p.output_stride + t.head * HEAD + at, packed);
        if (at == 0 && p.lse)
            p.lse[row * p.n_heads + t.head] = lse_of(p.math, rows[r * WIDTH + HEAD], total);
    }
}

/* Stores the rows of the four warps through shared memory, so that all lanes of a warp write a row together. */
template <uint32_t HEAD>
DEVICE void flash_store(const struct attention_parameters &p, const struct flash_tile &t,
                        float *memory, const struct flash_sums<HEAD> &sums)
{
    constexpr uint32_t WIDTH = HEAD + 4;
    const uint32_t lane = threadIdx.x % WARP, first = flash_warp() * 16;
    float *rows = memory + first * WIDTH;
    UNROLL
    for (uint32_t j = 0; j < 2; j++) {
        float *row = rows + (lane / 4 + j * 8) * WIDTH, total = sums.total[j];
        total += shuffle_xor(total, 1);
        total += shuffle_xor(total, 2);
        UNROLL
        for (uint32_t i = 0; i < HEAD / 8; i++) {
            row[i * 8 + lane % 4 * 2] = sums.o[i][2 * j];
            row[i * 8 + lane % 4 * 2 + 1] = sums.o[i][2 * j + 1];
        }
        if (lane % 4 == 0) {
            row[HEAD] = sums.m[j];
            row[HEAD + 1] = total;
        }
    }
    warp_sync();
    if (has_wide_output(p)) {
        flash_store_wide<HEAD>(p, t, rows);
        return;
    }
    for (uint32_t r = 0; r < 16 && first + r < t.tile.n_tokens; r++) {
        struct row_sums<HEAD / WARP> of_row;
        of_row.m = rows[r * WIDTH + HEAD];
        of_row.total = rows[r * WIDTH + HEAD + 1];
        UNROLL
        for (uint32_t c = 0; c < HEAD / WARP; c++)
            of_row.sums[c] = rows[r * WIDTH + c * WARP + lane];
        store_row(p, p.math, row_of(p, *t.sequence, t.tile.first_token + first + r, t.head),
                  of_row);
    }
}

template <uint32_t HEAD, bool IS_BF16>
DEVICE void attention_flash_body(const struct attention_parameters &p)
{
    SHARED_MEMORY(memory);
    const struct flash_tile t = flash_tile_of(p, gridDim.x - 1 - blockIdx.x, blockIdx.y);
    struct flash_sums<HEAD> sums;
    flash_begin<HEAD>(p, t, sums);
    if (t.sequence->kind != SEQUENCE_IS_DUMMY)
        flash_attend<HEAD, IS_BF16>(p, t, shared_address(memory), sums);
    flash_store<HEAD>(p, t, (float *)memory, sums);
}
