/*
 * tile - the inner loops of attend: one tile of keys brought in, and two small products.
 *
 * Bound: tile_load, the cache's bytes; tile_qk and tile_pv, multiply-adds.
 */
#pragma once

#include "kernels/cpu/attend.h"

#define tile_load ISA(tile_load)
#define tile_qk   ISA(tile_qk)
#define tile_pv   ISA(tile_pv)

#ifdef __AVX512F__
enum { TILE_ROWS = 6, QK_VECS = 4, PV_VECS = 4 }; /* 24 accumulators of 32 registers */
#else
enum { TILE_ROWS = 5, QK_VECS = 1, PV_VECS = 1 }; /* 10 registers of 16 */
#endif

/* One kv head of a sequence in the cache. */
struct tile_source {
    const struct kv_view *kv;
    const uint32_t *block_ids;
    uint32_t layer_index, kv_head, head_dim;
    enum dtype cache;
    uint32_t n_keys; /* written ones: nothing from here on is read */
};

/* Keys start .. start + TILE_KEYS - 1: K as [dim][TILE_KEYS], V as [TILE_KEYS][dim_padded]; zeros
 * from n_keys on. */
void tile_load(const struct tile_source *source, uint32_t start, float *k_t, float *v);

/* scores[row][key] = sum over dim, in order, for keys 0 .. n_keys - 1 rounded up to LANES. */
void tile_qk(uint32_t n_rows, uint32_t n_keys, uint32_t head_dim, const float *q, const float *k_t,
             float *scores);

/* out[row] = out[row] * keep[row] + sum of weights[row][key] v[key], keys first .. end - 1 in
 * order. */
void tile_pv(uint32_t n_rows, uint32_t first, uint32_t end, uint32_t dim, const float *weights,
             const float *v, const float *keep, float *out);
