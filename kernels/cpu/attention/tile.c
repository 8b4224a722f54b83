#include "kernels/cpu/attention/tile.h"

#include <assert.h>

enum { STRIP = STRIP_KEYS };

static const char zeros[TILE_DIM_MAX * sizeof(float)];

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

#ifdef TILE_HAS_FEW
#include "kernels/cpu/attention/tile_few.h"
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

#if defined __AVX2__ && !defined __AVX512F__
/* Sixteen E4M3, divided by E4M3_OF_HALF. */
INLINE vec small16_e4m3(const char *array)
{
    const __m256i high_bytes = _mm256_setr_epi8(-1, 0, -1, 1, -1, 2, -1, 3, -1, 4, -1, 5, -1, 6, -1,
                                                7, -1, 8, -1, 9, -1, 10, -1, 11, -1, 12, -1, 13, -1,
                                                14, -1, 15);
    const __m256i bytes = _mm256_broadcastsi128_si256(
        _mm_loadu_si128((const __m128i *)(const void *)array));
    const __m256i half = e4m3_halves(_mm256_shuffle_epi8(bytes, high_bytes));
    return (vec){_mm256_cvtph_ps(_mm256_castsi256_si128(half)),
                 _mm256_cvtph_ps(_mm256_extracti128_si256(half, 1))};
}

/* Weights for the values of vec_load_lanes: those of E4M3 are small. A weight is at most 448, so no product overflows. */
INLINE const float *pv_weights(const enum dtype dtype, const uint32_t n_rows, const float *weights,
                               float *scaled)
{
    if (dtype != DTYPE_E4M3)
        return weights;
    for (uint32_t i = 0; i < n_rows * TILE_KEYS; i += LANES)
        vec_store(scaled + i, vec_mul(vec_load(weights + i), vec_set(E4M3_OF_HALF)));
    return scaled;
}

/* BF16: the sixteen lanes are the even elements, then the odd ones. E4M3: small16_e4m3. */
INLINE void vec_load_lanes(const enum dtype dtype, const char *array, const uint32_t n,
                           vec *values_out)
{
    if (dtype != DTYPE_BF16 && dtype != DTYPE_E4M3) {
        vec_load_run(dtype, array, n, values_out);
        return;
    }
    UNROLL
    for (uint32_t i = 0; i < n; i++) {
        if (dtype == DTYPE_E4M3) {
            values_out[i] = small16_e4m3(array + i * LANES);
            continue;
        }
        __m256i pairs = _mm256_loadu_si256((const __m256i *)(const void *)(array + i * 32));
        values_out[i].low = _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
        values_out[i].high = _mm256_castsi256_ps(
            _mm256_and_si256(pairs, _mm256_set1_epi32((int)0xffff0000u)));
    }
}

INLINE __m256 vec_mix_quarters(__m256 v)
{
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(v), 0xd8));
}

INLINE vec vec_to_lanes(const enum dtype dtype, vec v)
{
    if (dtype != DTYPE_BF16)
        return v;
    return (vec){vec_mix_quarters(_mm256_shuffle_ps(v.low, v.high, 0x88)),
                 vec_mix_quarters(_mm256_shuffle_ps(v.low, v.high, 0xdd))};
}

INLINE vec vec_from_lanes(const enum dtype dtype, vec v)
{
    if (dtype != DTYPE_BF16)
        return v;
    __m256 low = _mm256_unpacklo_ps(v.low, v.high), high = _mm256_unpackhi_ps(v.low, v.high);
    return (vec){_mm256_permute2f128_ps(low, high, 0x20), _mm256_permute2f128_ps(low, high, 0x31)};
}
#else
INLINE const float *pv_weights(const enum dtype dtype, const uint32_t n_rows, const float *weights,
                               float *scaled)
{
    (void)dtype, (void)n_rows, (void)scaled;
    return weights;
}

INLINE void vec_load_lanes(const enum dtype dtype, const char *array, const uint32_t n,
                           vec *values_out)
{
    vec_load_run(dtype, array, n, values_out);
}

INLINE vec vec_to_lanes(const enum dtype dtype, vec v)
{
    (void)dtype;
    return v;
}

INLINE vec vec_from_lanes(const enum dtype dtype, vec v)
{
    (void)dtype;
    return v;
}
#endif

/* The vectors of output of a row that are computed together. One or two rows need more than one, or nothing would hide the
 * latency of their sums. PV_EVEN_ROWS: with more rows the next tile is asked for from the first key on, not evenly. */
#if defined __AVX2__ && !defined __AVX512F__
enum {
    PV_VECS = 4,
    PV_ACCS = TILE_ROWS_MAX,
    PV_EVEN_ROWS = TILE_ROWS_MAX,
    PV_SCALED_ROWS = TILE_ROWS_MAX
};

INLINE uint32_t pv_vecs(const uint32_t n_rows)
{
    return n_rows == 1 ? PV_VECS : n_rows == 2 ? 2 : 1;
}
#else
enum { PV_VECS = TILE_VECS, PV_ACCS = TILE_ROWS * TILE_VECS, PV_EVEN_ROWS = 2, PV_SCALED_ROWS = 1 };

INLINE uint32_t pv_vecs(const uint32_t n_rows)
{
    return n_rows > TILE_ROWS && TILE_VECS > 1 ? TILE_VECS - 1 : row_vecs(n_rows);
}
#endif

/* The lines that are prefetched at each strip and at each key. */
struct asking {
    uint32_t strip_lines, key_lines;
};

INLINE struct asking asking_of(const uint32_t n_rows, const struct tile_weighted *op, uint32_t at,
                               const uint32_t n_vecs)
{
    if (n_rows > PV_EVEN_ROWS)
        return (struct asking){0};
    const uint32_t n_lines = tile_ask_left(op->ahead);
    const uint32_t n_keys = (op->dim - at + n_vecs * LANES - 1) / (n_vecs * LANES) *
                            (op->end - op->first);
    if (n_lines > n_keys)
        return (struct asking){.key_lines = (n_lines + n_keys - 1) / n_keys};
    return (struct asking){.strip_lines = (n_lines * STRIP + n_keys - 1) / n_keys};
}

/* Computes n_vecs vectors of output, beginning at dim at. */
INLINE void pv(const uint32_t n_rows, const uint32_t n_vecs, const enum dtype dtype,
               const struct tile_weighted *op, const float *weights, uint32_t at)
{
    const size_t bytes = dtype_bytes(dtype);
    vec acc[PV_ACCS];
    UNROLL
    for (uint32_t r = 0; r < n_rows; r++) {
        UNROLL
        for (uint32_t n = 0; n < n_vecs; n++)
            acc[r * n_vecs + n] = vec_mul(
                vec_to_lanes(dtype, vec_load(op->out + (size_t)r * op->dim + at + n * LANES)),
                vec_set(op->keep[r]));
    }
    const struct asking asking = asking_of(n_rows, op, at, n_vecs);
    for (uint32_t key = op->first; key < op->end;) {
        tile_ask_lines(asking.strip_lines, op->ahead);
        const size_t stride = op->v->strides[key / STRIP];
        const char *row = op->v->strips[key / STRIP] + key % STRIP * stride + at * bytes;
        uint32_t strip_end = key / STRIP * STRIP + STRIP;
        strip_end = strip_end < op->end ? strip_end : op->end;
        for (; key < strip_end; key++, row += stride) {
            vec values[PV_VECS];
            if (n_rows <= PV_EVEN_ROWS)
                tile_ask_lines(asking.key_lines, op->ahead);
            else
                tile_ask(op->ahead);
            vec_load_lanes(dtype, row, n_vecs, values);
            UNROLL
            for (uint32_t r = 0; r < n_rows; r++) {
                vec weight = vec_set(weights[r * TILE_KEYS + key]);
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
            vec_store(op->out + (size_t)r * op->dim + at + n * LANES,
                      vec_from_lanes(dtype, acc[r * n_vecs + n]));
    }
}

INLINE void pv_as(const enum dtype dtype, const uint32_t n_rows, const struct tile_weighted *op)
{
    const uint32_t n_vecs = pv_vecs(n_rows);
    float scaled[PV_SCALED_ROWS * TILE_KEYS];
    const float *weights = pv_weights(dtype, n_rows, op->weights, scaled);
    uint32_t at = 0;
    if (n_vecs > 2)
        for (; at + n_vecs * LANES <= op->dim; at += n_vecs * LANES)
            pv(n_rows, n_vecs, dtype, op, weights, at);
    if (n_vecs > 1)
        for (; at + 2 * LANES <= op->dim; at += 2 * LANES)
            pv(n_rows, 2, dtype, op, weights, at);
    for (; at < op->dim; at += LANES)
        pv(n_rows, 1, dtype, op, weights, at);
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
