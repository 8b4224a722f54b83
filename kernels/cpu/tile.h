/*
 * tile - the inner loops of attend over one tile of keys: K transposed, and two small products.
 *
 * Bound: tile_transpose, the cache's bytes; tile_qk and tile_pv, multiply-adds.
 */
#pragma once

#include "kernels/attention.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/rows.h"

#define tile_transpose ISA(tile_transpose)
#define tile_widen     ISA(tile_widen)
#define tile_qk        ISA(tile_qk)
#define tile_pv        ISA(tile_pv)

#if defined __AVX512F__
enum { TILE_ROWS = 6, QK_VECS = 4, PV_VECS = 4 }; /* 24 accumulators of 32 registers */
#else
enum { TILE_ROWS = 5, QK_VECS = 1, PV_VECS = 1 }; /* 10 registers of 16 */
#endif

enum {
    TILE_KEYS = 64,
    STRIP_KEYS = 8, /* keys that lie a stride apart: always within one block */
    TILE_STRIPS = TILE_KEYS / STRIP_KEYS,
};

/* K or V of a tile where they lie. */
struct tile_rows {
    const char *strips[TILE_STRIPS]; /* undefined where no key is */
    size_t strides[TILE_STRIPS];     /* bytes from key to key */
    /* What is wanted next, asked for strip by strip, so that requests spread over the work. */
    const char *ahead[TILE_STRIPS]; /* NULL: nothing */
    enum dtype dtype;
};

enum { LINE_BYTES = 64 };

/* Asks for the strip that follows in the second-level cache. Must be inlined, or the compiler drops
 * the call. */
INLINE void tile_prefetch(const struct tile_rows *rows, uint32_t strip)
{
    if (!rows->ahead[strip])
        return;
    for (size_t byte = 0; byte < STRIP_KEYS * rows->strides[strip]; byte += LINE_BYTES)
        vec_prefetch(rows->ahead[strip] + byte);
}

static inline uint32_t dim_padded(uint32_t head_dim)
{
    return (head_dim + LANES - 1) / LANES * LANES;
}

/* k_t [head_dim][TILE_KEYS], zeros from n_keys on. */
void tile_transpose(const struct tile_rows *k, uint32_t n_keys, uint32_t head_dim, float *k_t);

/* Into memory [TILE_KEYS][dim_padded], zeros from n_keys on. wide_out may be v. */
void tile_widen(const struct tile_rows *v, uint32_t n_keys, uint32_t head_dim, float *memory,
                struct tile_rows *wide_out);

/* scores[row][key] = sum over dim, in order, for keys 0 .. n_keys - 1 rounded up to LANES. */
void tile_qk(uint32_t n_rows, uint32_t n_keys, uint32_t head_dim, const float *q, const float *k_t,
             float *scores);

/* The product P V of some rows: dim is padded, keys first .. end - 1 are read. */
struct tile_weighted {
    const struct tile_rows *v;
    const float *weights; /* [rows][TILE_KEYS] */
    const float *keep;    /* [rows] */
    float *out;           /* [rows][dim] */
    uint32_t first, end, dim;
};

/* out[row] = out[row] * keep[row] + sum of weights[row][key] v[key], keys in order. */
void tile_pv(uint32_t n_rows, const struct tile_weighted *op);
