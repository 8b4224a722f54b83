/*
 * tile - the inner loops of attend: one tile of keys brought in, and two small products.
 *
 * Bound: tile_load, the cache's bytes; tile_qk and tile_pv, multiply-adds.
 */
#pragma once

#include "kernels/cpu/attend.h"

#define tile_load       ISA(tile_load)
#define tile_prefetch_v ISA(tile_prefetch_v)
#define tile_qk         ISA(tile_qk)
#define tile_pv         ISA(tile_pv)

#ifdef __AVX512F__
enum { TILE_ROWS = 6, QK_VECS = 4, PV_VECS = 4 }; /* 24 accumulators of 32 registers */
#else
enum { TILE_ROWS = 5, QK_VECS = 1, PV_VECS = 1 }; /* 10 registers of 16 */
#endif

enum { STRIP_KEYS = 8 }; /* keys of a strip: always within one block */

/* One kv head of a sequence in the cache. */
struct tile_source {
    const struct kv_view *kv;
    const uint32_t *block_ids;
    uint32_t layer_index, kv_head, head_dim;
    enum dtype cache;
    uint32_t n_keys; /* written ones: nothing from here on is read */
};

/* Where tile_pv finds the values of a tile: in the cache itself, or widened by tile_load. */
struct tile_values {
    const char *strips[TILE_KEYS / STRIP_KEYS]; /* rows of a strip lie stride bytes apart */
    size_t stride;
    enum dtype dtype;
};

/* Keys start .. start + TILE_KEYS - 1: K as [dim][TILE_KEYS], zeros from n_keys on. V is widened
 * into v [TILE_KEYS][dim_padded], zeros from n_keys on, when that pays for n_rows or must be. */
void tile_load(const struct tile_source *source, uint32_t start, uint32_t n_rows, float *k_t,
               float *v, struct tile_values *values_out);

/* Asks for V of the tile at start: not with its K, so that the requests spread over the work. */
void tile_prefetch_v(const struct tile_source *source, uint32_t start);

/* scores[row][key] = sum over dim, in order, for keys 0 .. n_keys - 1 rounded up to LANES. */
void tile_qk(uint32_t n_rows, uint32_t n_keys, uint32_t head_dim, const float *q, const float *k_t,
             float *scores);

/* The product P V of some rows: dim is padded, keys first .. end - 1 are read. */
struct tile_weighted {
    const struct tile_values *values;
    const float *weights; /* [rows][TILE_KEYS] */
    const float *keep;    /* [rows] */
    float *out;           /* [rows][dim] */
    uint32_t first, end, dim;
};

/* out[row] = out[row] * keep[row] + sum of weights[row][key] v[key], keys in order. */
void tile_pv(uint32_t n_rows, const struct tile_weighted *op);
