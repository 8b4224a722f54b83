/*
 * block_tiles - a panel or two of blocks (block_panel.h) times some tokens: whole sums of a group in registers, then y, which stays in
 * registers for a chunk with AVX-512, and in memory otherwise.
 */
#pragma once

#include "kernels/cpu/products/block_panel.h"
#include "kernels/cpu/vector/bytes16.h"
#ifndef HAS_BYTES16
#include "kernels/cpu/vector/pairs16.h"
#endif

#if defined __AVX512F__
enum { MR = 6, NR = 2 }; /* tokens x panels: 12 registers of whole sums, 12 of y */
#elif defined __AVX2__
enum { MR = 4, NR = 1 }; /* 8 registers of sums, 4 of weights, 2 of x */
#else
enum { MR = 2, NR = 1 };
#endif
/* What a group of elements of a token adds besides its products: types with offsets multiply them with the scaled sum of x; others
 * begin at -block_bias times the sum. */
union group_term {
    float scaled_sum;
    int32_t begin;
};

/* A chunk of the tokens of a task. */
struct token_chunk {
    struct rounded16 x;                       /* of the first token, from the chunk on */
    union group_term (*terms)[CHUNK_FACTORS]; /* [token] */
    bool is_int8;                             /* x: the high bytes are zero */
};

#ifdef __AVX512F__

/* The terms of n elements of a token. */
INLINE void take_token_terms(const enum dtype dtype, const struct rounded16 *x, uint32_t n,
                             union group_term *terms)
{
    const __mmask16 groups = (__mmask16)((1u << n / block_group(dtype)) - 1);
    __m512i sums = _mm512_maskz_loadu_epi32((__mmask16)((1u << n / SUMS_STEP) - 1), x->sums);
    __m512 scales = _mm512_maskz_loadu_ps((__mmask16)((1u << n / PART) - 1), x->scales);
    if (block_group(dtype) == PART)
        sums = _mm512_castsi256_si512(
            _mm512_cvtepi64_epi32(_mm512_add_epi64(sums, _mm512_srli_epi64(sums, 32))));
    else
        scales = _mm512_permutexvar_ps(
            _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7), scales);
    if (blocks_have_offsets(dtype))
        _mm512_mask_storeu_ps(terms, groups, _mm512_mul_ps(_mm512_cvtepi32_ps(sums), scales));
    else
        _mm512_mask_storeu_epi32(terms, groups,
                                 _mm512_mullo_epi32(sums, _mm512_set1_epi32(-block_bias(dtype))));
}

#else

static void take_token_terms(enum dtype dtype, const struct rounded16 *x, uint32_t n,
                             union group_term *terms)
{
    const uint32_t group = block_group(dtype);
    const int32_t bias = block_bias(dtype);
    for (uint32_t k = 0; k < n; k += group) {
        const int32_t sum = rounded16_sum(x, k, group);
        if (blocks_have_offsets(dtype))
            terms[k / group].scaled_sum = (float)sum * x->scales[k / PART];
        else
            terms[k / group].begin = -bias * sum;
    }
}

#endif

static void take_terms(enum dtype dtype, const struct rounded16 *x, uint32_t n_tokens, uint32_t n,
                       union group_term (*terms)[CHUNK_FACTORS])
{
    for (uint32_t t = 0; t < n_tokens; t++) {
        const struct rounded16 token = rounded16_from(*x, t, 0);
        take_token_terms(dtype, &token, n, terms[t]);
    }
}

/* ---- tiles ---- */

/* y of sixteen rows a panel. */
typedef float sixteen[LANES];

#ifdef __AVX512F__

#ifdef HAS_BYTES16

/* acc += the products of the group at element k with bytes of x: the high ones, or the low ones. Three rows of x have a pointer in
 * common, so that all pointers stay in registers. */
INLINE void bytes_dot(const uint32_t mr, const uint32_t nr, const uint32_t group,
                      const struct block_panel *panels, const struct rounded16 *x, uint32_t k,
                      const bool is_low, __m512i *acc)
{
    const uint8_t *three[(MR + 2) / 3];
    const uint8_t *w = panels->bytes + (size_t)k * LANES;
    const size_t stride = 2 * x->stride;
    UNROLL
    for (uint32_t i = 0; i < (mr + 2) / 3; i++)
        three[i] = (const uint8_t *)x->counts + k / PART * BYTES16_PART_BYTES + k % PART +
                   is_low * BYTES16_PART + 3 * i * stride;
    for (uint32_t i = 0; i < group; i += BYTES16_STEP) {
        __m512i b[NR];
        UNROLL
        for (uint32_t n = 0; n < nr; n++)
            b[n] = _mm512_load_si512(w + n * sizeof *panels + (size_t)i * LANES);
        UNROLL
        for (uint32_t m = 0; m < mr; m++) {
            const uint8_t *four = three[m / 3] + m % 3 * stride + i;
            UNROLL
            for (uint32_t n = 0; n < nr; n++)
                acc[m * nr + n] = bytes16_dot(acc[m * nr + n], b[n], four);
        }
    }
}

/* The sums of the group at element k, which begin with zero. */
INLINE void group_dot(const uint32_t mr, const uint32_t nr, const uint32_t group,
                      const struct block_panel *panels, const struct token_chunk *chunk, uint32_t k,
                      __m512i *acc)
{
    if (!chunk->is_int8) {
        bytes_dot(mr, nr, group, panels, &chunk->x, k, false, acc);
        UNROLL
        for (uint32_t i = 0; i < mr * nr; i++)
            acc[i] = bytes16_move_up(acc[i]);
    }
    bytes_dot(mr, nr, group, panels, &chunk->x, k, true, acc);
}

#else

/* The same of pairs. */
INLINE void group_dot(const uint32_t mr, const uint32_t nr, const uint32_t group,
                      const struct block_panel *panels, const struct token_chunk *chunk, uint32_t k,
                      __m512i *acc)
{
    const struct rounded16 *x = &chunk->x;
    const int16_t *three[(MR + 2) / 3];
    const int16_t *w = panels->wide + (size_t)k * LANES;
    UNROLL
    for (uint32_t i = 0; i < (mr + 2) / 3; i++)
        three[i] = x->counts + k + 3 * i * x->stride;
    for (uint32_t i = 0; i < group; i += 2) {
        __m512i b[NR];
        UNROLL
        for (uint32_t n = 0; n < nr; n++)
            b[n] = _mm512_load_si512(w + n * (sizeof *panels / sizeof *w) + (size_t)i * LANES);
        UNROLL
        for (uint32_t m = 0; m < mr; m++) {
            const int16_t *pair = three[m / 3] + m % 3 * x->stride + i;
            UNROLL
            for (uint32_t n = 0; n < nr; n++)
                acc[m * nr + n] = pairs_dot(acc[m * nr + n], b[n], pair);
        }
    }
}

#endif

/* y of sixteen rows + the sums of group g with a token, whose scale and term it has. */
INLINE vec group_added(const bool has_offsets, const struct block_panel *panel, uint32_t g,
                       __m512i sums, float scale, union group_term term, vec y)
{
    if (!has_offsets)
        sums = _mm512_add_epi32(sums, _mm512_set1_epi32(term.begin));
    y = vec_fma(_mm512_cvtepi32_ps(sums), vec_mul(vec_load(panel->factors[g]), vec_set(scale)), y);
    return has_offsets ? vec_fma(vec_load(panel->offsets[g]), vec_set(term.scaled_sum), y) : y;
}

/* y of mr tokens and nr panels += n elements. */
INLINE void tile_run(const uint32_t mr, const uint32_t nr, const uint32_t group,
                     const bool has_offsets, const struct block_panel *panels,
                     const struct token_chunk *chunk, uint32_t n, sixteen *const *y_out)
{
    const struct rounded16 *x = &chunk->x;
    const size_t scale_stride = x->stride / PART;
    vec y[MR * NR];
    UNROLL
    for (uint32_t i = 0; i < mr * nr; i++)
        y[i] = vec_load(y_out[i % nr][i / nr]);
    for (uint32_t g = 0, k = 0; k < n; g++, k += group) {
        const float *scales = x->scales + k / PART;
        __m512i acc[MR * NR];
        UNROLL
        for (uint32_t i = 0; i < mr * nr; i++)
            acc[i] = _mm512_setzero_si512();
        group_dot(mr, nr, group, panels, chunk, k, acc);
        UNROLL
        for (uint32_t i = 0; i < mr * nr; i++)
            y[i] = group_added(has_offsets, &panels[i % nr], g, acc[i],
                               scales[i / nr * scale_stride], chunk->terms[i / nr][g], y[i]);
    }
    UNROLL
    for (uint32_t i = 0; i < mr * nr; i++)
        vec_store(y_out[i % nr][i / nr], y[i]);
}

#define TILE(mr, nr, group, has_offsets)                                                           \
    static __attribute__((noinline)) void tile_##mr##_##nr##_##group##_##has_offsets(              \
        const struct block_panel *panels, const struct token_chunk *chunk, uint32_t n,             \
        sixteen *const *y)                                                                         \
    {                                                                                              \
        tile_run(mr, nr, group, has_offsets, panels, chunk, n, y);                                 \
    }

#else

typedef void dot_function(const int16_t *wide, const int16_t *counts, size_t stride,
                          const union group_term (*terms)[CHUNK_FACTORS], sums16 *sums_out);

/* The sums of a group: sixteen rows against mr tokens, a stride apart. */
INLINE void group_dot(const uint32_t mr, const uint32_t group, const bool has_offsets,
                      const int16_t *wide, const int16_t *counts, size_t stride,
                      const union group_term (*terms)[CHUNK_FACTORS], sums16 *sums_out)
{
    sums16 acc[MR];
    UNROLL
    for (uint32_t m = 0; m < mr; m++)
        acc[m] = sums16_begin(has_offsets ? 0 : terms[m][0].begin);
#pragma GCC unroll 2
    for (const int16_t *end = counts + group; counts != end; counts += 2, wide += 2 * LANES) {
        UNROLL
        for (uint32_t m = 0; m < mr; m++)
            acc[m] = pair_dot(acc[m], wide, counts + m * stride);
    }
    UNROLL
    for (uint32_t m = 0; m < mr; m++)
        sums_out[m] = acc[m];
}

/* y of mr tokens and sixteen rows += n elements. */
INLINE void tile_run(const uint32_t mr, const uint32_t group, const bool has_offsets,
                     dot_function *dot, const struct block_panel *panel,
                     const struct token_chunk *chunk, uint32_t n, sixteen *y)
{
    const struct rounded16 *x = &chunk->x;
    const size_t scale_stride = x->stride / PART;
    for (uint32_t g = 0, k = 0; k < n; g++, k += group) {
        const vec factors = vec_load(panel->factors[g]);
        const float *scales = x->scales + k / PART;
        const union group_term(*terms)[CHUNK_FACTORS] = (const void *)&chunk->terms[0][g];
        sums16 sums[MR];
        dot(panel->wide + (size_t)k * LANES, x->counts + k, x->stride, terms, sums);
        UNROLL
        for (uint32_t m = 0; m < mr; m++) {
            const vec scale = vec_set(scales[m * scale_stride]);
            vec out = vec_fma(sums16_to_vec(sums[m]), vec_mul(factors, scale), vec_load(y[m]));
            if (has_offsets)
                out = vec_fma(vec_load(panel->offsets[g]), vec_set(terms[m][0].scaled_sum), out);
            vec_store(y[m], out);
        }
    }
}

/* The dot is not inlined: among other code the compiler would store the sums in every step. */
#define TILE(mr, nr, group, has_offsets)                                                           \
    static __attribute__((noinline)) void dot_##mr##_##group##_##has_offsets(                      \
        const int16_t *wide, const int16_t *counts, size_t stride,                                 \
        const union group_term(*terms)[CHUNK_FACTORS], sums16 *sums_out)                           \
    {                                                                                              \
        group_dot(mr, group, has_offsets, wide, counts, stride, terms, sums_out);                  \
    }                                                                                              \
    static void tile_##mr##_##nr##_##group##_##has_offsets(const struct block_panel *panels,       \
                                                           const struct token_chunk *chunk,        \
                                                           uint32_t n, sixteen *const *y)          \
    {                                                                                              \
        tile_run(mr, group, has_offsets, dot_##mr##_##group##_##has_offsets, panels, chunk, n,     \
                 y[0]);                                                                            \
    }

#endif

#define TILES(mr, nr)                                                                              \
    TILE(mr, nr, 16, 0) TILE(mr, nr, 16, 1) TILE(mr, nr, 32, 0) TILE(mr, nr, 32, 1)

typedef void tile_function(const struct block_panel *, const struct token_chunk *, uint32_t,
                           sixteen *const *);

TILES(1, 1)
TILES(2, 1)
#ifdef __AVX2__
TILES(4, 1)
#endif
#ifdef __AVX512F__
TILES(6, 1)
TILES(1, 2)
TILES(2, 2)
TILES(4, 2)
TILES(6, 2)
#endif

/* The tile for n tokens or fewer, and how many it takes. */
static tile_function *tile_of(const struct gemm *gemm, uint32_t n, uint32_t nr, uint32_t *n_out)
{
#define BY_TYPE(mr, nr)                                                                            \
    {                                                                                              \
        mr,                                                                                        \
        {                                                                                          \
            {tile_##mr##_##nr##_16_0, tile_##mr##_##nr##_16_1},                                    \
            {                                                                                      \
                tile_##mr##_##nr##_32_0, tile_##mr##_##nr##_32_1                                   \
            }                                                                                      \
        }                                                                                          \
    }
    /* By panels; by tokens; by groups of 16, 32; by offsets. */
    static const struct {
        uint32_t mr;
        tile_function *of[2][2];
    } TILES_OF[NR][2 + MR / 2 - 1] = {
#ifdef __AVX512F__
        {BY_TYPE(1, 1), BY_TYPE(2, 1), BY_TYPE(4, 1), BY_TYPE(6, 1)},
        {BY_TYPE(1, 2), BY_TYPE(2, 2), BY_TYPE(4, 2), BY_TYPE(6, 2)},
#elif defined __AVX2__
        {BY_TYPE(1, 1), BY_TYPE(2, 1), BY_TYPE(4, 1)},
#else
        {BY_TYPE(1, 1), BY_TYPE(2, 1)},
#endif
    };
#undef BY_TYPE
    uint32_t i = sizeof TILES_OF[0] / sizeof *TILES_OF[0] - 1;
    while (TILES_OF[nr - 1][i].mr > n || (TILES_OF[nr - 1][i].mr == 6 && n == 8))
        i--;
    *n_out = TILES_OF[nr - 1][i].mr;
    return TILES_OF[nr - 1][i]
        .of[block_group(gemm->w_dtype) == PART][blocks_have_offsets(gemm->w_dtype)];
}
