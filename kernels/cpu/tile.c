#include "kernels/cpu/tile.h"

#include <assert.h>

enum { STRIP = 8, LINE_BYTES = 64 }; /* keys of a strip: within one block, and 8 x 8 transposes */

INLINE __m256 load8(enum dtype dtype, const char *row, uint32_t dim)
{
    if (dtype == DTYPE_F32)
        return _mm256_loadu_ps((const float *)(const void *)row + dim);
    __m128i raw = _mm_loadu_si128((const __m128i *)(const void *)(row + 2 * dim));
    if (dtype == DTYPE_F16)
        return _mm256_cvtph_ps(raw);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(raw), 16));
}

/* 8 x 8: lane j of row i becomes lane i of out[j]. */
INLINE void transpose8(const __m256 row[8], __m256 out[8])
{
    __m256 pair[8], quad[8];
    UNROLL
    for (int i = 0; i < 8; i += 2) {
        pair[i] = _mm256_unpacklo_ps(row[i], row[i + 1]);
        pair[i + 1] = _mm256_unpackhi_ps(row[i], row[i + 1]);
    }
    UNROLL
    for (int i = 0; i < 8; i += 4) {
        quad[i] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0x44);
        quad[i + 1] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0xee);
        quad[i + 2] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0x44);
        quad[i + 3] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0xee);
    }
    UNROLL
    for (int i = 0; i < 4; i++) {
        out[i] = _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x20);
        out[i + 4] = _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x31);
    }
}

/* Up to STRIP keys, the rest zeros, into columns of k_t. */
INLINE void load_k_strip(const enum dtype dtype, const char *k, size_t token_stride,
                         uint32_t n_keys, uint32_t head_dim, float *k_t)
{
    for (uint32_t dim = 0; dim < head_dim; dim += 8) {
        __m256 row[STRIP], column[STRIP];
        if (n_keys == STRIP) {
            UNROLL
            for (uint32_t i = 0; i < STRIP; i++)
                row[i] = load8(dtype, k + i * token_stride, dim);
        } else {
            for (uint32_t i = 0; i < STRIP; i++)
                row[i] = i < n_keys ? load8(dtype, k + i * token_stride, dim) : _mm256_setzero_ps();
        }
        transpose8(row, column);
        UNROLL
        for (uint32_t i = 0; i < STRIP; i++)
            _mm256_storeu_ps(k_t + (size_t)(dim + i) * TILE_KEYS, column[i]);
    }
}

INLINE void load_v_strip(const enum dtype dtype, const char *v, size_t token_stride,
                         uint32_t n_keys, uint32_t head_dim, float *rows)
{
    uint32_t padded = dim_padded(head_dim);
    for (uint32_t i = 0; i < n_keys; i++) {
        float *row = rows + (size_t)i * padded;
        for (uint32_t dim = 0; dim < head_dim; dim += 8)
            _mm256_storeu_ps(row + dim, load8(dtype, v + i * token_stride, dim));
        if (padded != head_dim)
            _mm256_storeu_ps(row + head_dim, _mm256_setzero_ps());
    }
    memset(rows + (size_t)n_keys * padded, 0, (size_t)(STRIP - n_keys) * padded * sizeof *rows);
}

/* The strip of the next tile, so that it is near when its turn comes. */
static void prefetch_strip(const struct tile_source *source, uint32_t start)
{
    if (start >= source->n_keys)
        return;
    const char *k = host_kv_token(source->kv, source->layer_index, source->block_ids,
                                  source->kv_head, start);
    size_t n_bytes = STRIP * source->kv->token_stride;
    for (size_t i = 0; i < n_bytes; i += LINE_BYTES) {
        _mm_prefetch(k + i, _MM_HINT_T0);
        _mm_prefetch(k + source->kv->kv_stride + i, _MM_HINT_T0);
    }
}

INLINE void load_as(const enum dtype dtype, const struct tile_source *source, uint32_t start,
                    float *k_t, float *v)
{
    uint32_t padded = dim_padded(source->head_dim);
    for (uint32_t i = 0; i < TILE_KEYS; i += STRIP) {
        uint32_t key = start + i;
        uint32_t n_left = key < source->n_keys ? source->n_keys - key : 0;
        uint32_t n_keys = n_left < STRIP ? n_left : STRIP;
        const char *k = NULL;
        if (n_keys > 0)
            k = host_kv_token(source->kv, source->layer_index, source->block_ids, source->kv_head,
                              key);
        load_k_strip(dtype, k, source->kv->token_stride, n_keys, source->head_dim, k_t + i);
        load_v_strip(dtype, n_keys > 0 ? k + source->kv->kv_stride : NULL, source->kv->token_stride,
                     n_keys, source->head_dim, v + (size_t)i * padded);
        prefetch_strip(source, key + TILE_KEYS);
    }
}

void tile_load(const struct tile_source *source, uint32_t start, float *k_t, float *v)
{
    switch (source->cache) {
    case DTYPE_F32:
        load_as(DTYPE_F32, source, start, k_t, v);
        break;
    case DTYPE_BF16:
        load_as(DTYPE_BF16, source, start, k_t, v);
        break;
    case DTYPE_F16:
        load_as(DTYPE_F16, source, start, k_t, v);
        break;
    }
}

INLINE void qk(const uint32_t n_rows, const uint32_t n_vecs, uint32_t head_dim, const float *q,
               const float *k_t, float *scores)
{
    vec acc[TILE_ROWS * QK_VECS];
    UNROLL
    for (uint32_t i = 0; i < n_rows * n_vecs; i++)
        acc[i] = vec_zero();
    for (uint32_t dim = 0; dim < head_dim; dim++) {
        vec keys[QK_VECS];
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
                    const float *k_t, float *scores)
{
    uint32_t key = 0;
    if (QK_VECS > 1)
        for (; key + (QK_VECS - 1) * LANES < n_keys; key += QK_VECS * LANES)
            qk(n_rows, QK_VECS, head_dim, q, k_t + key, scores + key);
    for (; key < n_keys; key += LANES)
        qk(n_rows, 1, head_dim, q, k_t + key, scores + key);
}

void tile_qk(uint32_t n_rows, uint32_t n_keys, uint32_t head_dim, const float *q, const float *k_t,
             float *scores)
{
    switch (n_rows) {
    case 1:
        qk_rows(1, n_keys, head_dim, q, k_t, scores);
        break;
    case 2:
        qk_rows(2, n_keys, head_dim, q, k_t, scores);
        break;
    case 3:
        qk_rows(3, n_keys, head_dim, q, k_t, scores);
        break;
    case 4:
        qk_rows(4, n_keys, head_dim, q, k_t, scores);
        break;
    case 5:
        qk_rows(5, n_keys, head_dim, q, k_t, scores);
        break;
    default:
        assert(n_rows == TILE_ROWS);
        qk_rows(TILE_ROWS, n_keys, head_dim, q, k_t, scores);
    }
}

/* The product's operands, offset to some dims. */
struct pv {
    const float *weights, *v, *keep;
    float *out;
    uint32_t first, end, dim;
};

INLINE void pv(const uint32_t n_rows, const uint32_t n_vecs, const struct pv *op, uint32_t at)
{
    vec acc[TILE_ROWS * PV_VECS];
    UNROLL
    for (uint32_t r = 0; r < n_rows; r++) {
        UNROLL
        for (uint32_t n = 0; n < n_vecs; n++)
            acc[r * n_vecs + n] = vec_mul(vec_load(op->out + (size_t)r * op->dim + at + n * LANES),
                                          vec_set(op->keep[r]));
    }
    for (uint32_t key = op->first; key < op->end; key++) {
        vec values[PV_VECS];
        UNROLL
        for (uint32_t n = 0; n < n_vecs; n++)
            values[n] = vec_load(op->v + (size_t)key * op->dim + at + n * LANES);
        UNROLL
        for (uint32_t r = 0; r < n_rows; r++) {
            vec weight = vec_set(op->weights[r * TILE_KEYS + key]);
            UNROLL
            for (uint32_t n = 0; n < n_vecs; n++)
                acc[r * n_vecs + n] = vec_fma(weight, values[n], acc[r * n_vecs + n]);
        }
    }
    UNROLL
    for (uint32_t r = 0; r < n_rows; r++) {
        UNROLL
        for (uint32_t n = 0; n < n_vecs; n++)
            vec_store(op->out + (size_t)r * op->dim + at + n * LANES, acc[r * n_vecs + n]);
    }
}

INLINE void pv_rows(const uint32_t n_rows, const struct pv *op)
{
    uint32_t at = 0;
    if (PV_VECS > 2)
        for (; at + PV_VECS * LANES <= op->dim; at += PV_VECS * LANES)
            pv(n_rows, PV_VECS, op, at);
    if (PV_VECS > 1)
        for (; at + 2 * LANES <= op->dim; at += 2 * LANES)
            pv(n_rows, 2, op, at);
    for (; at < op->dim; at += LANES)
        pv(n_rows, 1, op, at);
}

void tile_pv(uint32_t n_rows, uint32_t first, uint32_t end, uint32_t dim, const float *weights,
             const float *v, const float *keep, float *out)
{
    struct pv op = {weights, v, keep, out, first, end, dim};
    switch (n_rows) {
    case 1:
        pv_rows(1, &op);
        break;
    case 2:
        pv_rows(2, &op);
        break;
    case 3:
        pv_rows(3, &op);
        break;
    case 4:
        pv_rows(4, &op);
        break;
    case 5:
        pv_rows(5, &op);
        break;
    default:
        assert(n_rows == TILE_ROWS);
        pv_rows(TILE_ROWS, &op);
    }
}
