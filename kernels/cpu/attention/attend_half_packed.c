#include "kernels/cpu/attention/attend_half.h"

#ifdef PACKED_MATH

#include "kernels/cpu/attention/tile_transpose_avx512.h"

#ifdef HAS_AMX_BF16
#include "kernels/cpu/attention/half_amx.h"
#else
#include "kernels/cpu/attention/half_dot.h"
#endif

#include <assert.h>

enum { PACKED = 32 }; /* elements of a register */

/* ---- operands ---- */

#ifdef __AVX512FP16__
#define PACKED_DTYPE DTYPE_F16

INLINE __m256i narrow_f16(__m512 floats)
{
    const __m512 most = _mm512_set1_ps(F16_LARGEST), least = _mm512_set1_ps(-F16_LARGEST);
    __m512 bound = _mm512_min_ps(most,
                                 _mm512_max_ps(least, floats)); /* in this order NaN stays NaN */
    return _mm512_cvtps_ph(bound, _MM_FROUND_TO_NEAREST_INT);
}

INLINE __m512i narrow(__m512 low, __m512 high)
{
    return _mm512_inserti64x4(_mm512_castsi256_si512(narrow_f16(low)), narrow_f16(high), 1);
}

INLINE __m512i narrow_int8_words(__m512i words)
{
    return (__m512i)_mm512_cvtepi16_ph(words);
}

/* The factor is exact in FP16 too. */
INLINE __m512i narrow_e4m3_bytes(__m256i bytes)
{
    __m512i half = e4m3_halves(_mm512_cvtepi8_epi16(bytes));
    return (__m512i)_mm512_mul_ph((__m512h)half, _mm512_set1_ph(256));
}
#else
#define PACKED_DTYPE DTYPE_BF16

INLINE __m512i narrow(__m512 low, __m512 high)
{
    return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}

INLINE __m512i narrow_int8_words(__m512i words)
{
    return narrow(_mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(_mm512_castsi512_si256(words))),
                  _mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(_mm512_extracti64x4_epi64(words, 1))));
}

INLINE __m512i narrow_e4m3_bytes(__m256i bytes)
{
    return e4m3_to_bf16(bytes);
}
#endif

/* Loads n elements of a row from element `at` on, with zeros after them. */
INLINE __m512i load_packed(const enum dtype dtype, const char *row, uint32_t at, uint32_t n)
{
    const __mmask32 mask = n < PACKED ? (1u << n) - 1 : ~0u;
    const float *floats = (const float *)(const void *)row + at;
    if (dtype == DTYPE_F32)
        return narrow(_mm512_maskz_loadu_ps((__mmask16)mask, floats),
                      _mm512_maskz_loadu_ps((__mmask16)(mask >> LANES), floats + LANES));
    if (dtype == DTYPE_E4M3)
        return narrow_e4m3_bytes(_mm256_maskz_loadu_epi8(mask, row + at));
    if (dtype == DTYPE_INT8)
        return narrow_int8_words(_mm512_cvtepi8_epi16(_mm256_maskz_loadu_epi8(mask, row + at)));
    __m512i half = _mm512_maskz_loadu_epi16(mask, row + 2 * at);
    return dtype == PACKED_DTYPE
               ? half
               : narrow(vec_widen_half(dtype, _mm512_castsi512_si256(half)),
                        vec_widen_half(dtype, _mm512_extracti64x4_epi64(half, 1)));
}

static uint32_t left(uint32_t head_dim, uint32_t dim)
{
    return head_dim > dim ? head_dim - dim : 0;
}

static void load(const struct attend *attend)
{
    const uint32_t head_dim = attend->call->attention->host.config.head_dim;
    const uint32_t dim_end = half_dim(head_dim);
    uint16_t *to = attend->scratch->half.q;
    assert(attend->math == PACKED_MATH);
    for (uint32_t r = 0; r < attend->block->n_rows; r++) {
        const char *row = (const char *)(attend->scratch->q + (size_t)r * head_dim);
        for (uint32_t dim = 0; dim < dim_end; dim += PACKED, to += PACKED)
            _mm512_storeu_si512(to, load_packed(DTYPE_F32, row, dim, left(head_dim, dim)));
    }
}

/* The address of a key of the tile; of zeros for a key outside shown. */
static const char *key_at(const struct tile_rows *rows, struct seen shown, uint32_t key)
{
    static const char zeros[HEAD_DIM_MAX * sizeof(float)];
    const uint32_t strip = key / STRIP_KEYS;
    return key >= shown.first && key < shown.end
               ? rows->strips[strip] + key % STRIP_KEYS * rows->strides[strip]
               : zeros;
}

/* Packs K into k_out [dim / 2][TILE_KEYS][2]. Columns from n_keys on, rounded up to LANES, are not written. */
INLINE void pack_k(const enum dtype dtype, const struct tile_rows *k, uint32_t n_keys,
                   uint32_t head_dim, struct tile_ahead *ahead, uint16_t *k_out)
{
    const uint32_t dim_end = half_dim(head_dim);
    for (uint32_t first = 0; first < n_keys; first += LANES) {
        const char *keys[LANES];
        for (uint32_t i = 0; i < LANES; i++)
            keys[i] = key_at(k, (struct seen){0, n_keys}, first + i);
        for (uint32_t dim = 0; dim < dim_end; dim += PACKED) {
            __m512 rows[LANES];
            UNROLL
            for (uint32_t i = 0; i < LANES; i++) {
                if (i % 4 == 0)
                    tile_ask(ahead);
                rows[i] = _mm512_castsi512_ps(
                    load_packed(dtype, keys[i], dim, left(head_dim, dim)));
            }
            transpose16(rows);
            UNROLL
            for (uint32_t i = 0; i < LANES; i++)
                _mm512_storeu_ps(k_out + 2 * ((size_t)(dim / 2 + i) * TILE_KEYS + first), rows[i]);
        }
    }
}

/* Packs V into v_out [TILE_KEYS / 2][dim_padded][2]. Keys that no row sees may be NaN, and 0 times NaN is NaN: they
 * become zeros. */
INLINE void pack_v(const enum dtype dtype, const struct tile_rows *v, struct seen shown,
                   uint32_t head_dim, struct tile_ahead *ahead, uint16_t *v_out)
{
    static const uint16_t order[2][PACKED] = {
        {0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
         8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47},
        {16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55,
         24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63}};
    const __m512i low = _mm512_loadu_si512(order[0]), high = _mm512_loadu_si512(order[1]);
    const uint32_t dim_end = dim_padded(head_dim);
    for (uint32_t key = 0; key < TILE_KEYS; key += 2, v_out += 2 * (size_t)dim_end) {
        const char *even = key_at(v, shown, key), *odd = key_at(v, shown, key + 1);
        tile_ask(ahead);
        for (uint32_t dim = 0; dim < dim_end; dim += PACKED) {
            __m512i a = load_packed(dtype, even, dim, left(head_dim, dim));
            __m512i b = load_packed(dtype, odd, dim, left(head_dim, dim));
            _mm512_storeu_si512(v_out + 2 * (size_t)dim, _mm512_permutex2var_epi16(a, low, b));
            if (dim + LANES < dim_end)
                _mm512_storeu_si512(v_out + 2 * (size_t)(dim + LANES),
                                    _mm512_permutex2var_epi16(a, high, b));
        }
    }
}

static void pack_p(uint32_t n_rows, const float *weights, uint16_t *p_out)
{
    for (uint32_t i = 0; i < n_rows * TILE_KEYS; i += PACKED)
        _mm512_storeu_si512(
            p_out + i, narrow(_mm512_loadu_ps(weights + i), _mm512_loadu_ps(weights + i + LANES)));
}

/* ---- products ---- */

static void scores(const struct attend *attend, uint32_t n_keys, const struct seen *seen,
                   const struct tile_rows *k, struct tile_ahead *ahead)
{
    (void)seen; /* rows are multiplied by all existing keys */
    const struct attend_scratch *scratch = attend->scratch;
    const uint32_t head_dim = attend->call->attention->host.config.head_dim;
    const uint32_t dim = half_dim(head_dim);
    FOR_DTYPE(k->dtype, pack_k, k, n_keys, head_dim, ahead, scratch->half.k);
    half_multiply(&(struct half_product){.n_rows = attend->block->n_rows,
                                         .n_columns = (n_keys + LANES - 1) / LANES * LANES,
                                         .n_pairs = dim / 2,
                                         .a = scratch->half.q,
                                         .a_stride = dim,
                                         .b = scratch->half.k,
                                         .b_stride = 2 * TILE_KEYS,
                                         .c = scratch->scores,
                                         .c_stride = TILE_KEYS});
}

static void scale_rows(uint32_t n_rows, uint32_t dim, const float *keep, float *out)
{
    for (uint32_t r = 0; r < n_rows; r++, out += dim)
        for (uint32_t i = 0; keep[r] != 1 && i < dim; i += LANES)
            vec_store(out + i, vec_mul(vec_load(out + i), vec_set(keep[r])));
}

static void outputs(const struct attend *attend, const struct seen *seen, const float *keep,
                    const struct tile_rows *v, struct tile_ahead *ahead, struct partial *partial)
{
    const struct attend_scratch *scratch = attend->scratch;
    const uint32_t head_dim = attend->call->attention->host.config.head_dim;
    const uint32_t dim = dim_padded(head_dim);
    const uint32_t n_rows = attend->block->n_rows;
    FOR_DTYPE(v->dtype, pack_v, v, seen_together(seen, n_rows), head_dim, ahead, scratch->half.v);
    pack_p(n_rows, scratch->scores, scratch->half.p);
    scale_rows(n_rows, dim, keep, partial->out);
    half_multiply(&(struct half_product){.n_rows = n_rows,
                                         .n_columns = dim,
                                         .n_pairs = TILE_KEYS / 2,
                                         .a = scratch->half.p,
                                         .a_stride = TILE_KEYS,
                                         .b = scratch->half.v,
                                         .b_stride = 2 * dim,
                                         .c = partial->out,
                                         .c_stride = dim,
                                         .adds = true});
}

const struct half_math half_math_packed = {half_start, half_finish, load, scores, outputs};

#endif
