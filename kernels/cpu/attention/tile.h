/*
 * tile - the inner loops of attend for one tile of keys: the transposition of K, and two small products.
 *
 * Bound: tile_transpose, the cache's bytes; tile_qk and tile_pv, multiply-adds.
 */
#pragma once

#include "kernels/attention.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vector/rows.h"

#ifndef ISA_LOOPS
#define ISA_LOOPS ISA_NAME
#endif
#define tile_transpose ISA_JOIN(tile_transpose, ISA_LOOPS)
#define tile_widen     ISA_JOIN(tile_widen, ISA_LOOPS)
#define tile_qk        ISA_JOIN(tile_qk, ISA_LOOPS)
#define tile_pv        ISA_JOIN(tile_pv, ISA_LOOPS)
#define tile_few       ISA_JOIN(tile_few, ISA_LOOPS)

/* The inner loops compute TILE_ROWS rows together. The last group may have a few more rows, with fewer vectors. */
#if defined __AVX512F__
enum { TILE_ROWS = 6, TILE_ROWS_MAX = 8, TILE_VECS = 4 }; /* 24 accumulators of 32 registers */
#else
enum { TILE_ROWS = 5, TILE_ROWS_MAX = 5, TILE_VECS = 1 }; /* 10 of 16 registers */
#endif
#if defined __AVX2__
#define TILE_HAS_FEW
enum { TILE_FEW_ROWS = 8 };
enum { TILE_NARROW_ROWS = TILE_FEW_ROWS }; /* up to this many rows read V as it is cached */
#else
enum { TILE_NARROW_ROWS = TILE_ROWS_MAX };
#endif

enum {
    TILE_KEYS = 64,
    STRIP_KEYS = 8, /* keys with one stride between them: a strip is always inside one block */
    TILE_STRIPS = TILE_KEYS / STRIP_KEYS,
    TILE_DIM_MAX = 640, /* of K: at least HEAD_DIM_MAX and the width of a latent's row */
};

/* The number of consecutive rows that are computed together. The last two groups have about equal sizes, since a single
 * row cannot hide the latency of its sums. */
static inline uint32_t tile_group_rows(uint32_t n_left)
{
    if (n_left <= TILE_ROWS_MAX)
        return n_left;
    return n_left < 2 * TILE_ROWS ? (n_left + 1) / 2 : TILE_ROWS;
}

/* Where K or V of a tile are. */
struct tile_rows {
    const char *strips[TILE_STRIPS]; /* undefined after the last key */
    size_t strides[TILE_STRIPS];     /* bytes from key to key */
    enum dtype dtype;
};

/* K and V of the next tile, which are prefetched into the L2 cache while this tile is computed. A burst of prefetches
 * would take the line buffers that the loads of this tile need, so the inner loops prefetch a few lines at a time. */
struct tile_ahead {
    const char *strips[2 * TILE_STRIPS];
    uint32_t n_strips, strip; /* strip: the one that is being prefetched */
    size_t bytes, byte;       /* bytes of a strip; byte: where the next prefetch begins */
};

struct tile {
    struct tile_rows k, v;
    struct tile_ahead ahead;
};

enum { LINE_BYTES = 64, ASK_BYTES = 2 * LINE_BYTES };

/* Prefetches two lines. It must be inlined, or the compiler drops the prefetches. */
INLINE void tile_ask(struct tile_ahead *ahead)
{
    if (ahead->strip == ahead->n_strips)
        return;
    const char *lines = ahead->strips[ahead->strip] + ahead->byte;
    vec_prefetch(lines);
    vec_prefetch(lines + LINE_BYTES);
    ahead->byte += ASK_BYTES;
    if (ahead->byte >= ahead->bytes) {
        ahead->byte = 0;
        ahead->strip++;
    }
}

/* Prefetches up to n_lines. */
INLINE void tile_ask_lines(uint32_t n_lines, struct tile_ahead *ahead)
{
    for (uint32_t i = 0; i < n_lines && ahead->strip < ahead->n_strips; i++) {
        vec_prefetch(ahead->strips[ahead->strip] + ahead->byte);
        ahead->byte += LINE_BYTES;
        if (ahead->byte >= ahead->bytes) {
            ahead->byte = 0;
            ahead->strip++;
        }
    }
}

/* The lines that are not prefetched yet. */
static inline uint32_t tile_ask_left(const struct tile_ahead *ahead)
{
    return (uint32_t)(((ahead->n_strips - ahead->strip) * ahead->bytes - ahead->byte) / LINE_BYTES);
}

/* Calls act(dtype, ...) with the dtype of a cache as a constant. */
#define FOR_DTYPE(dtype, act, ...)                                                                 \
    do {                                                                                           \
        switch (dtype) {                                                                           \
        case DTYPE_F32:                                                                            \
            act(DTYPE_F32, __VA_ARGS__);                                                           \
            break;                                                                                 \
        case DTYPE_BF16:                                                                           \
            act(DTYPE_BF16, __VA_ARGS__);                                                          \
            break;                                                                                 \
        case DTYPE_F16:                                                                            \
            act(DTYPE_F16, __VA_ARGS__);                                                           \
            break;                                                                                 \
        case DTYPE_INT8:                                                                           \
            act(DTYPE_INT8, __VA_ARGS__);                                                          \
            break;                                                                                 \
        default:                                                                                   \
            assert((dtype) == DTYPE_E4M3);                                                         \
            act(DTYPE_E4M3, __VA_ARGS__);                                                          \
        }                                                                                          \
    } while (0)

static inline uint32_t dim_padded(uint32_t head_dim)
{
    return (head_dim + LANES - 1) / LANES * LANES;
}

/* Transposes K into k_t [head_dim][TILE_KEYS], with zeros from n_keys on. */
void tile_transpose(const struct tile_rows *k, uint32_t n_keys, uint32_t head_dim,
                    struct tile_ahead *ahead, float *k_t);

/* Widens V into memory [TILE_KEYS][dim_padded], with zeros from n_keys on. wide_out may be v. */
void tile_widen(const struct tile_rows *v, uint32_t n_keys, uint32_t head_dim,
                struct tile_ahead *ahead, float *memory, struct tile_rows *wide_out);

/* scores[row][key] = sum over dim, in order, for keys 0 .. n_keys - 1 rounded up to LANES. */
void tile_qk(uint32_t n_rows, uint32_t n_keys, uint32_t head_dim, const float *q, const float *k_t,
             struct tile_ahead *ahead, float *scores);

/* The scores of up to TILE_FEW_ROWS rows, as of tile_transpose and tile_qk. Only sets with TILE_HAS_FEW have it: there the
 * floats of a whole tile of keys leave no room in the L1 cache. */
struct tile_few_keys {
    const struct tile_rows *k;
    struct tile_ahead *ahead;
    const float *q; /* [rows][head_dim] */
    float *packed;  /* [head_dim][TILE_KEYS], for this call */
    float *scores;  /* [rows][TILE_KEYS] */
    uint32_t n_keys, head_dim;
};

#ifdef TILE_HAS_FEW
void tile_few(uint32_t n_rows, const struct tile_few_keys *op);
#endif

/* The product P V of some rows. dim is padded; keys first .. end - 1 are read. */
struct tile_weighted {
    const struct tile_rows *v;
    struct tile_ahead *ahead;
    const float *weights; /* [rows][TILE_KEYS] */
    const float *keep;    /* [rows] */
    float *out;           /* [rows][dim] */
    uint32_t first, end, dim;
};

/* out[row] = out[row] * keep[row] + sum of weights[row][key] v[key], keys in order. */
void tile_pv(uint32_t n_rows, const struct tile_weighted *op);
