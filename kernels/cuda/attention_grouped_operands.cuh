/*
 * attention_grouped_operands - the operands of attention_grouped: queries in registers, K and V by cp.async, widened if the
 * cache has 8 bits; and the products.
 */
#pragma once

#include "kernels/cuda/attention_grouped_tile.cuh"

/* ---- operands ---- */

/* Element i of a row of Q, rounded for the product: times the factor of the scores and the unit of K. */
template <bool IS_BF16>
DEVICE uint32_t grouped_query_pair(float factor, uint32_t low, uint32_t high)
{
    const float a = bits_float(low) * factor, b = bits_float(high) * factor;
    return IS_BF16 ? pack_bf16(a, b) : pack_f16(clamp_f16(a), clamp_f16(b));
}

/*
 * Loads Q of column lane / 4. Of sixteen elements a product takes first the first eight, then the others; if K has 8 bits,
 * first the even ones, then the odd ones, as grouped_widen makes them.
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
    blocks.ids = p.block_ids + first_block_of(p, *t.sequence, t.tile.beam);
    blocks.base = (const uint8_t *)p.kv_base + t.kv_head * p.head_bytes +
                  lane / CHUNKS * p.token_bytes + lane % CHUNKS * 16;
    blocks.shift = 31;
    for (uint32_t n = 16; !p.is_contiguous && n <= p.block_tokens; n *= 2)
        blocks.shift = blocks.shift == 31 ? 4 : blocks.shift + 1;
    return blocks;
}

/* The block of a tile that is loaded a turn later. */
DEVICE uint32_t grouped_block(const struct grouped_tile &t, const struct grouped_blocks &blocks,
                              uint32_t first)
{
    return t.is_near && grouped_is_within(t.keys, first) ? blocks.ids[first >> blocks.shift] : 0;
}

/* Loads K and V of 16 keys in one block. */
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

/* Loads K and V of the warp's 16 keys from first on; keys that no row sees become zeros. */
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

/* Widens bytes 0 and 2 of a word, then 1 and 3, exactly. */
template <uint32_t CACHE, bool IS_BF16>
DEVICE void grouped_widen(uint32_t word, uint32_t (&pairs)[2])
{
    if (CACHE == DTYPE_E4M3)
        grouped_widen_e4m3<IS_BF16>(word, pairs);
    else
        grouped_widen_int8<IS_BF16>(word, pairs);
}

/* The place of a lane's part of elements 32 i ... in the rows of 16 keys: with 16 bits a half of them, with 8 bits all. */
template <uint32_t BYTES> DEVICE uint32_t grouped_place(uint32_t stage, uint32_t i)
{
    const uint32_t lane = threadIdx.x % WARP;
    return (stage + tensor_place<BYTES>(lane % 16, lane / 16)) ^ i << 5;
}

/* Multiplies 16 keys by Q. */
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

/* Multiplies V of 16 keys by p. With 8 bits, of sixteen elements the even ones are rows 0 to 7 of a product, the odd ones
 * the others. */
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
