/*
 * tile_few - the scores of a few rows. The keys of a tile are transposed some at a time, in words of 32 bits that stay
 * in the L1 cache, and are widened when they are multiplied. The sum of a score has the same order as in tile_qk.
 *
 * What a register, a word and their loops are: tile_few_avx2.h and tile_few_avx512.h.
 */
#pragma once

#if defined __AVX512F__
#include "kernels/cpu/attention/tile_few_avx512.h"
#else
#include "kernels/cpu/attention/tile_few_avx2.h"
#endif

/* The scores of n_rows for the keys in packed, n_regs registers of them. */
INLINE void few_qk(const enum dtype dtype, const uint32_t n_rows, const uint32_t n_regs,
                   uint32_t n_lines, const struct tile_few_keys *op, const float *q, float *scores)
{
    const uint32_t head_dim = op->head_dim;
    const float *packed = op->packed;
    const uint32_t dims = few_word_dims(dtype), floats = few_word_floats(dtype);
    few_vec acc[FEW_REGS_MAX];
    UNROLL
    for (uint32_t i = 0; i < n_rows * n_regs; i++)
        acc[i] = few_zero();
    for (uint32_t dim = 0; dim < head_dim; dim += dims, packed += n_regs * floats) {
        tile_ask_lines(n_lines, op->ahead);
        UNROLL
        for (uint32_t i = 0; i < dims; i++) {
            few_vec keys[FEW_REGS_MAX];
            UNROLL
            for (uint32_t n = 0; n < n_regs; n++)
                keys[n] = few_values(dtype, packed + n * floats, i);
            UNROLL
            for (uint32_t r = 0; r < n_rows; r++) {
                const few_vec element = few_set(q[r * head_dim + dim + i]);
                UNROLL
                for (uint32_t n = 0; n < n_regs; n++)
                    acc[r * n_regs + n] = few_fma(element, keys[n], acc[r * n_regs + n]);
            }
        }
    }
    UNROLL
    for (uint32_t r = 0; r < n_rows; r++) {
        UNROLL
        for (uint32_t n = 0; n < n_regs; n++)
            few_store(scores + r * TILE_KEYS + n * FEW_KEYS, acc[r * n_regs + n]);
    }
}

INLINE void few_rows(const enum dtype dtype, const uint32_t n_rows, const struct tile_few_keys *op)
{
    const uint32_t n_regs = few_row_regs(dtype, n_rows), n_keys = n_regs * FEW_KEYS;
    const uint32_t n_words = op->head_dim / few_word_dims(dtype);
    const uint32_t first = n_rows * n_regs > FEW_REGS_MAX ? (n_rows + 1) / 2 : n_rows;
    const uint32_t step = n_regs * few_word_floats(dtype);
    const uint32_t n_steps = (op->n_keys + n_keys - 1) / n_keys * n_words;
    const uint32_t n_lines = (tile_ask_left(op->ahead) / 2 + n_steps - 1) / n_steps;
    for (uint32_t key = 0; key < op->n_keys; key += n_keys) {
        for (uint32_t n = 0; n < n_regs; n++) {
            const char *keys[FEW_KEYS];
            for (uint32_t i = 0; i < FEW_KEYS; i += STRIP_KEYS)
                strip_keys(op->k, (key + n * FEW_KEYS + i) / STRIP_KEYS, op->n_keys, keys + i);
            few_transpose(dtype, keys, n_words, step, op->packed + n * few_word_floats(dtype));
        }
        few_qk(dtype, first, n_regs, n_lines, op, op->q, op->scores + key);
        if (first < n_rows)
            few_qk(dtype, n_rows - first, n_regs, 0, op, op->q + first * op->head_dim,
                   op->scores + first * TILE_KEYS + key);
    }
}

INLINE void few_as(const enum dtype dtype, uint32_t n_rows, const struct tile_few_keys *op)
{
    switch (n_rows) {
    case 1:
        few_rows(dtype, 1, op);
        break;
    case 2:
        few_rows(dtype, 2, op);
        break;
    case 3:
        few_rows(dtype, 3, op);
        break;
    case 4:
        few_rows(dtype, 4, op);
        break;
    case 5:
        few_rows(dtype, 5, op);
        break;
    case 6:
        few_rows(dtype, 6, op);
        break;
    case 7:
        few_rows(dtype, 7, op);
        break;
    default:
        assert(n_rows == TILE_FEW_ROWS);
        few_rows(dtype, TILE_FEW_ROWS, op);
    }
}

#ifdef FEW_E4M3_UNIT
/* Multiplies Q by the unit of E4M3. False: an element is too large for it, or not finite. */
static bool few_scale_q(const float *q, uint32_t n, float *scaled_out)
{
    const float limit = 0x1p127f / FEW_E4M3_UNIT;
    uint32_t n_large = 0;
    for (uint32_t i = 0; i < n; i++) {
        scaled_out[i] = q[i] * FEW_E4M3_UNIT;
        n_large += !(fabsf(q[i]) < limit);
    }
    return n_large == 0;
}

static void few_e4m3(uint32_t n_rows, const struct tile_few_keys *op)
{
    float q[TILE_FEW_ROWS * HEAD_DIM_MAX];
    struct tile_few_keys scaled = *op;
    if (few_scale_q(op->q, n_rows * op->head_dim, q)) {
        scaled.q = q;
        few_as(DTYPE_E4M3, n_rows, &scaled);
        return;
    }
    tile_transpose(op->k, op->n_keys, op->head_dim, op->ahead, op->packed);
    for (uint32_t r = 0; r < n_rows; r++)
        tile_qk(1, op->n_keys, op->head_dim, op->q + (size_t)r * op->head_dim, op->packed,
                op->ahead, op->scores + (size_t)r * TILE_KEYS);
}
#endif

void tile_few(uint32_t n_rows, const struct tile_few_keys *op)
{
#ifdef FEW_E4M3_UNIT
    if (op->k->dtype == DTYPE_E4M3) {
        few_e4m3(n_rows, op);
        return;
    }
#endif
    FOR_DTYPE(op->k->dtype, few_as, n_rows, op);
}
