#include "kernels/cpu/attention/tile.h"

#include <assert.h>

enum { STRIP = STRIP_KEYS };

static const char zeros[HEAD_DIM_MAX * sizeof(float)];

/* The addresses of a strip's keys; after the last key the address of zeros. */
INLINE void strip_keys(const struct tile_rows *rows, uint32_t strip, uint32_t n_keys,
                       const char *keys[STRIP])
{
    uint32_t start = strip * STRIP;
    for (uint32_t i = 0; i < STRIP; i++)
        keys[i] = start + i < n_keys ? rows->strips[strip] + i * rows->strides[strip] : zeros;
}

#if defined __AVX512F__
#include "kernels/cpu/attention/tile_transpose_avx512.h"
#elif defined __AVX2__
#include "kernels/cpu/attention/tile_transpose_avx2.h"
#else
enum { TRANSPOSED_STRIPS = 1 };

INLINE void transpose_keys(const enum dtype dtype, const char *const keys[STRIP], uint32_t head_dim,
                           struct tile_ahead *ahead, float *k_t)
{
    (void)ahead;
    for (uint32_t i = 0; i < STRIP; i++)
        for (uint32_t dim = 0; dim < head_dim; dim++)
            k_t[(size_t)dim * TILE_KEYS + i] = lane_load(dtype, keys[i], dim);
}
#endif

INLINE void transpose_as(const enum dtype dtype, const struct tile_rows *k, uint32_t n_keys,
                         uint32_t head_dim, struct tile_ahead *ahead, float *k_t)
{
    for (uint32_t strip = 0; strip < TILE_STRIPS; strip += TRANSPOSED_STRIPS) {
        const char *keys[TRANSPOSED_STRIPS * STRIP];
        for (uint32_t i = 0; i < TRANSPOSED_STRIPS; i++)
            strip_keys(k, strip + i, n_keys, keys + i * STRIP);
        transpose_keys(dtype, keys, head_dim, ahead, k_t + strip * STRIP);
    }
}

void tile_transpose(const struct tile_rows *k, uint32_t n_keys, uint32_t head_dim,
                    struct tile_ahead *ahead, float *k_t)
{
    FOR_DTYPE(k->dtype, transpose_as, k, n_keys, head_dim, ahead, k_t);
}

void tile_widen(const struct tile_rows *v, uint32_t n_keys, uint32_t head_dim,
                struct tile_ahead *ahead, float *memory, struct tile_rows *wide_out)
{
    const uint32_t padded = dim_padded(head_dim);
    struct tile_rows wide = {.dtype = DTYPE_F32};
    for (uint32_t strip = 0; strip < TILE_STRIPS; strip++) {
        const char *keys[STRIP];
        strip_keys(v, strip, n_keys, keys);
        wide.strips[strip] = (const char *)memory;
        wide.strides[strip] = padded * sizeof *memory;
        for (uint32_t i = 0; i < STRIP; i++, memory += padded) {
            tile_ask(ahead);
            row_widen(v->dtype, keys[i], head_dim, memory);
            memset(memory + head_dim, 0, (padded - head_dim) * sizeof *memory);
        }
    }
    *wide_out = wide;
}

/* The number of accumulators of a row. */
INLINE uint32_t row_vecs(const uint32_t n_rows)
{
    return n_rows > TILE_ROWS ? TILE_VECS / 2 : TILE_VECS;
}

INLINE void qk(const uint32_t n_rows, const uint32_t n_vecs, uint32_t head_dim, const float *q,
               const float *k_t, struct tile_ahead *ahead, float *scores)
{
    vec acc[TILE_ROWS * TILE_VECS];
    UNROLL
    for (uint32_t i = 0; i < n_rows * n_vecs; i++)
        acc[i] = vec_zero();
    for (uint32_t dim = 0; dim < head_dim; dim++) {
        vec keys[TILE_VECS];
        if (dim % 2 == 0)
            tile_ask(ahead);
        UNROLL
        for (uint32_t n = 0; n < n_vecs; n++)
            keys[n] = vec_load(k_t + (size_t)dim * TILE_KEYS + n * LANES);
        UNROLL
        for (uint32_t r = 0; r < n_rows; r++) {
            vec element = vec_set(q[r * head_dim + dim]);
            UNROLL
            for (uint32_t n = 0; n < n_vecs; n++)
                acc[r * n_vecs + n] = vec_fma(element, keys[n], acc[r * n_vecs + n]);
        }
    }
    UNROLL
    for (uint32_t r = 0; r < n_rows; r++) {
        UNROLL
        for (uint32_t n = 0; n < n_vecs; n++)
            vec_store(scores + r * TILE_KEYS + n * LANES, acc[r * n_vecs + n]);
    }
}

INLINE void qk_rows(const uint32_t n_rows, uint32_t n_keys, uint32_t head_dim, const float *q,
                    const float *k_t, struct tile_ahead *ahead, float *scores)
{
    const uint32_t n_vecs = row_vecs(n_rows);
    uint32_t key = 0;
    if (n_vecs > 1)
        for (; key + (n_vecs - 1) * LANES < n_keys; key += n_vecs * LANES)
            qk(n_rows, n_vecs, head_dim, q, k_t + key, ahead, scores + key);
    for (; key < n_keys; key += LANES)
        qk(n_rows, 1, head_dim, q, k_t + key, ahead, scores + key);
}

void tile_qk(uint32_t n_rows, uint32_t n_keys, uint32_t head_dim, const float *q, const float *k_t,
             struct tile_ahead *ahead, float *scores)
{
    switch (n_rows) {
    case 1:
        qk_rows(1, n_keys, head_dim, q, k_t, ahead, scores);
        break;
    case 2:
        qk_rows(2, n_keys, head_dim, q, k_t, ahead, scores);
        break;
    case 3:
        qk_rows(3, n_keys, head_dim, q, k_t, ahead, scores);
        break;
    case 4:
        qk_rows(4, n_keys, head_dim, q, k_t, ahead, scores);
        break;
#if defined __AVX512F__
    case 5:
        qk_rows(5, n_keys, head_dim, q, k_t, ahead, scores);
        break;
    case 6:
        qk_rows(6, n_keys, head_dim, q, k_t, ahead, scores);
        break;
    case 7:
        qk_rows(7, n_keys, head_dim, q, k_t, ahead, scores);
        break;
#endif
    default:
        assert(n_rows == TILE_ROWS_MAX);
        qk_rows(TILE_ROWS_MAX, n_keys, head_dim, q, k_t, ahead, scores);
    }
}

/* Computes n_vecs vectors of output, beginning at dim at. */
INLINE void pv(const uint32_t n_rows, const uint32_t n_vecs, const enum dtype dtype,
               const struct tile_weighted *op, uint32_t at)
{
    const size_t bytes = dtype_bytes(dtype);
    vec acc[TILE_ROWS * TILE_VECS];
    UNROLL
    for (uint32_t r = 0; r < n_rows; r++) {
        UNROLL
        for (uint32_t n = 0; n < n_vecs; n++)
            acc[r * n_vecs + n] = vec_mul(vec_load(op->out + (size_t)r * op->dim + at + n * LANES),
                                          vec_set(op->keep[r]));
    }
    for (uint32_t key = op->first; key < op->end;) {
        const size_t stride = op->v->strides[key / STRIP];
        const char *row = op->v->strips[key / STRIP] + key % STRIP * stride + at * bytes;
        uint32_t strip_end = key / STRIP * STRIP + STRIP;
        strip_end = strip_end < op->end ? strip_end : op->end;
        for (; key < strip_end; key++, row += stride) {
            vec values[TILE_VECS];
            tile_ask(op->ahead);
            vec_load_run(dtype, row, n_vecs, values);
            UNROLL
            for (uint32_t r = 0; r < n_rows; r++) {
                vec weight = vec_set(op->weights[r * TILE_KEYS + key]);
                UNROLL
                for (uint32_t n = 0; n < n_vecs; n++)
                    acc[r * n_vecs + n] = vec_fma(weight, values[n], acc[r * n_vecs + n]);
            }
        }
    }
    UNROLL
    for (uint32_t r = 0; r < n_rows; r++) {
        UNROLL
        for (uint32_t n = 0; n < n_vecs; n++)
            vec_store(op->out + (size_t)r * op->dim + at + n * LANES, acc[r * n_vecs + n]);
    }
}

INLINE void pv_as(const enum dtype dtype, const uint32_t n_rows, const struct tile_weighted *op)
{
    const uint32_t n_vecs = row_vecs(n_rows);
    uint32_t at = 0;
    if (n_vecs > 2)
        for (; at + n_vecs * LANES <= op->dim; at += n_vecs * LANES)
            pv(n_rows, n_vecs, dtype, op, at);
    if (n_vecs > 1)
        for (; at + 2 * LANES <= op->dim; at += 2 * LANES)
            pv(n_rows, 2, dtype, op, at);
    for (; at < op->dim; at += LANES)
        pv(n_rows, 1, dtype, op, at);
}

INLINE void pv_rows(const uint32_t n_rows, const struct tile_weighted *op)
{
    FOR_DTYPE(op->v->dtype, pv_as, n_rows, op);
}

void tile_pv(uint32_t n_rows, const struct tile_weighted *op)
{
    switch (n_rows) {
    case 1:
        pv_rows(1, op);
        break;
    case 2:
        pv_rows(2, op);
        break;
    case 3:
        pv_rows(3, op);
        break;
    case 4:
        pv_rows(4, op);
        break;
#if defined __AVX512F__
    case 5:
        pv_rows(5, op);
        break;
    case 6:
        pv_rows(6, op);
        break;
    case 7:
        pv_rows(7, op);
        break;
#endif
    default:
        assert(n_rows == TILE_ROWS_MAX);
        pv_rows(TILE_ROWS_MAX, op);
    }
}
