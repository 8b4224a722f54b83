#include "kernels/cpu/tile.h"

#include <assert.h>

enum { STRIP = STRIP_KEYS, LINE_BYTES = 64 };

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

/* Sixteen dims of a strip of BF16: pairs of elements are transposed as one, then parted. */
INLINE void load_k_pairs(const __m256 row[STRIP], float *k_t)
{
    __m256 pairs[STRIP];
    transpose8(row, pairs);
    UNROLL
    for (uint32_t i = 0; i < STRIP; i++) {
        __m256i pair = _mm256_castps_si256(pairs[i]);
        __m256i even = _mm256_slli_epi32(pair, 16);
        __m256i odd = _mm256_and_si256(pair, _mm256_set1_epi32((int)0xffff0000u));
        _mm256_storeu_ps(k_t + (size_t)(2 * i) * TILE_KEYS, _mm256_castsi256_ps(even));
        _mm256_storeu_ps(k_t + (size_t)(2 * i + 1) * TILE_KEYS, _mm256_castsi256_ps(odd));
    }
}

/* Up to STRIP keys, the rest zeros, into columns of k_t. */
INLINE void load_k_strip(const enum dtype dtype, const char *k, size_t token_stride,
                         uint32_t n_keys, uint32_t head_dim, float *k_t)
{
    static const char zeros[HEAD_DIM_MAX * sizeof(float)];
    const char *keys[STRIP];
    uint32_t dim = 0;
    for (uint32_t i = 0; i < STRIP; i++)
        keys[i] = i < n_keys ? k + i * token_stride : zeros;
    for (; dtype == DTYPE_BF16 && dim + 16 <= head_dim; dim += 16) {
        __m256 row[STRIP];
        UNROLL
        for (uint32_t i = 0; i < STRIP; i++)
            row[i] = _mm256_loadu_ps((const float *)(const void *)(keys[i] + 2 * dim));
        load_k_pairs(row, k_t + (size_t)dim * TILE_KEYS);
    }
    for (; dim < head_dim; dim += 8) {
        __m256 row[STRIP], column[STRIP];
        UNROLL
        for (uint32_t i = 0; i < STRIP; i++)
            row[i] = load8(dtype, keys[i], dim);
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

/* A strip of a later tile, so that it is near when its turn comes. Blocks are short pieces at random
 * places: asked for in the second-level cache, two tiles early, they come nearly twice as fast. */
INLINE void prefetch_strip(const struct tile_source *source, uint32_t start, size_t offset)
{
    if (start >= source->n_keys)
        return;
    const char *strip = host_kv_token(source->kv, source->layer_index, source->block_ids,
                                      source->kv_head, start) +
                        offset;
    size_t n_bytes = STRIP * source->kv->token_stride;
    for (size_t i = 0; i < n_bytes; i += LINE_BYTES)
        _mm_prefetch(strip + i, _MM_HINT_T1);
}

void tile_prefetch_v(const struct tile_source *source, uint32_t start)
{
    for (uint32_t i = 0; i < TILE_KEYS; i += STRIP)
        prefetch_strip(source, start + i, source->kv->kv_stride);
}

/* Widening V pays when more than one group of rows reads it; a row of half a vector must be padded,
 * lest its end be read past. */
static bool needs_widening(const struct tile_source *source, uint32_t n_rows)
{
    if (source->head_dim % LANES != 0)
        return true;
    return source->cache != DTYPE_F32 && n_rows > TILE_ROWS;
}

INLINE void load_as(const enum dtype dtype, const struct tile_source *source, uint32_t start,
                    float *k_t, float *v, struct tile_values *values)
{
    const size_t token_stride = source->kv->token_stride;
    const size_t strip_floats = (size_t)STRIP * dim_padded(source->head_dim);
    for (uint32_t i = 0; i < TILE_KEYS; i += STRIP) {
        uint32_t key = start + i;
        uint32_t n_left = key < source->n_keys ? source->n_keys - key : 0;
        uint32_t n_keys = n_left < STRIP ? n_left : STRIP;
        const char *k = NULL;
        if (n_keys > 0)
            k = host_kv_token(source->kv, source->layer_index, source->block_ids, source->kv_head,
                              key);
        const char *strip = n_keys > 0 ? k + source->kv->kv_stride : NULL;
        load_k_strip(dtype, k, token_stride, n_keys, source->head_dim, k_t + i);
        values->strips[i / STRIP] = strip;
        if (v) {
            float *rows = v + i / STRIP * strip_floats;
            load_v_strip(dtype, strip, token_stride, n_keys, source->head_dim, rows);
            values->strips[i / STRIP] = (const char *)rows;
        }
        prefetch_strip(source, key + TILE_KEYS, 0);
    }
    values->dtype = v ? DTYPE_F32 : dtype;
    values->stride = v ? strip_floats / STRIP * sizeof(float) : token_stride;
}

void tile_load(const struct tile_source *source, uint32_t start, uint32_t n_rows, float *k_t,
               float *v, struct tile_values *values_out)
{
    float *widened = needs_widening(source, n_rows) ? v : NULL;
    switch (source->cache) {
    case DTYPE_F32:
        load_as(DTYPE_F32, source, start, k_t, widened, values_out);
        break;
    case DTYPE_BF16:
        load_as(DTYPE_BF16, source, start, k_t, widened, values_out);
        break;
    case DTYPE_F16:
        load_as(DTYPE_F16, source, start, k_t, widened, values_out);
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

INLINE void pv(const uint32_t n_rows, const uint32_t n_vecs, const enum dtype dtype,
               const struct tile_weighted *op, uint32_t at)
{
    const size_t bytes = dtype == DTYPE_F32 ? 4 : 2;
    vec acc[TILE_ROWS * PV_VECS];
    UNROLL
    for (uint32_t r = 0; r < n_rows; r++) {
        UNROLL
        for (uint32_t n = 0; n < n_vecs; n++)
            acc[r * n_vecs + n] = vec_mul(vec_load(op->out + (size_t)r * op->dim + at + n * LANES),
                                          vec_set(op->keep[r]));
    }
    for (uint32_t key = op->first; key < op->end; key++) {
        const char *row = op->values->strips[key / STRIP] + key % STRIP * op->values->stride;
        vec values[PV_VECS];
        UNROLL
        for (uint32_t n = 0; n < n_vecs; n++)
            values[n] = vec_load_as(dtype, row + (at + n * LANES) * bytes);
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

INLINE void pv_as(const uint32_t n_rows, const enum dtype dtype, const struct tile_weighted *op)
{
    uint32_t at = 0;
    if (PV_VECS > 2)
        for (; at + PV_VECS * LANES <= op->dim; at += PV_VECS * LANES)
            pv(n_rows, PV_VECS, dtype, op, at);
    if (PV_VECS > 1)
        for (; at + 2 * LANES <= op->dim; at += 2 * LANES)
            pv(n_rows, 2, dtype, op, at);
    for (; at < op->dim; at += LANES)
        pv(n_rows, 1, dtype, op, at);
}

INLINE void pv_rows(const uint32_t n_rows, const struct tile_weighted *op)
{
    switch (op->values->dtype) {
    case DTYPE_F32:
        pv_as(n_rows, DTYPE_F32, op);
        break;
    case DTYPE_BF16:
        pv_as(n_rows, DTYPE_BF16, op);
        break;
    case DTYPE_F16:
        pv_as(n_rows, DTYPE_F16, op);
        break;
    }
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
    case 5:
        pv_rows(5, op);
        break;
    default:
        assert(n_rows == TILE_ROWS);
        pv_rows(TILE_ROWS, op);
    }
}
