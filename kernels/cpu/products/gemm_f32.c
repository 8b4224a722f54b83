/*
 * gemm_f32 - computes y = x W^T in float32, from row-major weights of any dtype, without packing.
 *
 * One 16-lane accumulator for each (token, weight row) runs over n_in in order; vec_sum adds its
 * lanes. A tile is MR tokens x NR rows in registers. There are three loops over such tiles:
 *
 *   strips   one token: rows at four places of the weights, far apart
 *   skinny   few tokens, with E4M3 a tile of them; with AVX-512 up to 32, and any number with long rows of 16 bits:
 *            weights are widened when they are read, tile after tile
 *   wide     many tokens, or other weights with scales: NR rows x K_BLOCK are widened into a scratch (float32
 *            is copied, since files do not align it). It stays in the L1 cache and is multiplied with
 *            TOKEN_BLOCK tokens; accumulators are kept between K blocks
 *
 * Bound: few tokens, the bytes of the weights; many, multiply-adds.
 */
#include "kernels/cpu/products/gemm_path.h"
#include "kernels/cpu/products/weights_ahead.h"
#include "kernels/cpu/products/widen.h"
#include "kernels/cpu/vector/vec.h"

#include <assert.h>

#ifdef __AVX512F__
enum { MR = 4, NR = 6 }; /* 24 accumulators, 4 + 1 operands: 29 of 32 registers */
enum { SKINNY_MAX = 32 };
#else
enum { MR = 2, NR = 3 }; /* 12 of 16 registers are accumulators */
enum { SKINNY_MAX = 8 };
#endif
/* So many places of the weights are read side by side for one token. */
#if defined __AVX2__ || defined SET_NEON
enum { STRIPS = 4 };
#else
enum { STRIPS = 2 }; /* the sums of more would not stay in registers */
#endif
enum {
    TILE = MR * NR,
    TILE_SUMS = (TILE + 7) / 8 * 8,
    STRIP_ROWS = 4,    /* rows of a tile in each strip */
    TILE_ROWS_MAX = 6, /* NR, STRIPS */
    TOKEN_BLOCK = 128, /* at most this many tokens for a widened weight block: a multiple of MR */
    TOKENS_BYTES = 1 << 20,
    SKINNY_TOKENS_BYTES = 512 << 10, /* no weight is widened for a task: it may have fewer */
    K_BLOCK = 1024,                  /* NR rows of it fit the L1 cache */
    IN_PLACE_MAX = 32, /* up to this many tokens, float32 weights are not copied to align them */
    AHEAD_TOKENS = 32, /* the first ones of a task prefetch the next weights */
    NEAR_BYTES = 8192, /* two tiles of this size and their x fit the L1 cache */
};

/* Prefetches into the L1 cache if is_near, else into the L2 cache. */
INLINE void prefetch(const char *line, size_t n_bytes, bool is_near)
{
    UNROLL
    for (size_t i = 0; i < n_bytes; i += LINE_BYTES) {
        if (is_near)
            __builtin_prefetch(line + i, 0, 3);
        else
            __builtin_prefetch(line + i, 0, 2);
    }
}

/* Adds n_in products to the accumulators acc[m * nr + n]. The stride of x is x_stride floats, that of w is w_stride
 * bytes. scales: of each row of w, which are multiplied first; NULL: none. ahead: bytes to the next tile; 0: the weights
 * are not in memory. While this tile is read row beside row, the next one is prefetched line after line: this doubled
 * the speed of a GEMV. */
INLINE void tile_run(const uint32_t mr, const uint32_t nr, const enum dtype dtype, const float *x,
                     size_t x_stride, const char *w, size_t w_stride, uint32_t n_in, size_t ahead,
                     const vec *scales, vec *acc)
{
    const size_t bytes = dtype_bytes(dtype);
    uint32_t k = 0;
    for (; k + LANES <= n_in; k += LANES) {
        vec a[MR];
        if (ahead)
            prefetch(w + ahead + k * nr * bytes, nr * LANES * bytes, ahead <= NEAR_BYTES);
        UNROLL
        for (uint32_t m = 0; m < mr; m++)
            a[m] = vec_load(x + m * x_stride + k);
        UNROLL
        for (uint32_t n = 0; n < nr; n++) {
            const char *row = w + n * w_stride + k * bytes;
            vec b = vec_load_as(dtype, row);
            if (scales)
                b = vec_mul(b, scales[n]);
            UNROLL
            for (uint32_t m = 0; m < mr; m++)
                acc[m * nr + n] = vec_fma(a[m], b, acc[m * nr + n]);
        }
    }
    if (k == n_in)
        return;
    vec a[MR];
    UNROLL
    for (uint32_t m = 0; m < mr; m++)
        a[m] = vec_load_some(DTYPE_F32, x + m * x_stride + k, n_in - k);
    UNROLL
    for (uint32_t n = 0; n < nr; n++) {
        vec b = vec_load_some(dtype, w + n * w_stride + k * bytes, n_in - k);
        if (scales)
            b = vec_mul(b, scales[n]);
        UNROLL
        for (uint32_t m = 0; m < mr; m++)
            acc[m * nr + n] = vec_fma(a[m], b, acc[m * nr + n]);
    }
}

INLINE void sum_eight(const vec eight[8], float *sums_out)
{
#ifdef __AVX2__
    _mm256_storeu_ps(sums_out, vec_sum8(eight));
#else
    for (uint32_t i = 0; i < 8; i++)
        sums_out[i] = vec_sum(eight[i]);
#endif
}

/* The lane sums of n vectors. */
INLINE void sum_each(const uint32_t n, const vec *acc, float *sums_out)
{
    uint32_t i = 0;
#ifdef __AVX512F__
    UNROLL
    for (; i + LANES <= n; i += LANES)
        vec_store(sums_out + i, vec_sum16(acc + i));
#endif
    UNROLL
    for (; i < n; i += 8) {
        vec eight[8];
        UNROLL
        for (uint32_t j = 0; j < 8; j++)
            eight[j] = i + j < n ? acc[i + j] : vec_zero();
        sum_eight(eight, sums_out + i);
    }
}

/* Adds the lanes of a tile and the bias, and writes y[token + m][row + n]. */
INLINE void tile_finish(const uint32_t mr, const uint32_t nr, const struct gemm *gemm,
                        uint32_t token, uint32_t row, const vec *acc)
{
    float sums[TILE_SUMS];
    sum_each(mr * nr, acc, sums);
    for (uint32_t m = 0; m < mr; m++)
        gemm_store(gemm, token + m, row, nr, sums + m * nr);
}

/* Whole rows, row_step apart. E4M3: a run of columns that have one scale after the other. */
INLINE void tile_rows(const uint32_t mr, const uint32_t nr, const enum dtype dtype,
                      const struct gemm *gemm, uint32_t token, uint32_t row, uint32_t row_step,
                      size_t ahead, vec *acc)
{
    const size_t w_stride = gemm->n_in * dtype_bytes(dtype);
    const float *x = (const float *)gemm->x + token * gemm->x_stride;
    const char *w = (const char *)gemm->w + row * w_stride;
    if (dtype != DTYPE_E4M3) {
        tile_run(mr, nr, dtype, x, gemm->x_stride, w, row_step * w_stride, gemm->n_in, ahead, NULL,
                 acc);
        return;
    }
    for (uint32_t k = 0, n; k < gemm->n_in; k += n) {
        vec scales[TILE_ROWS_MAX];
        n = gemm->n_in - k < gemm->w_scale_columns ? gemm->n_in - k : gemm->w_scale_columns;
        UNROLL
        for (uint32_t i = 0; i < nr; i++)
            scales[i] = vec_set(dequantize_scale(gemm, row + i * row_step, k));
        tile_run(mr, nr, dtype, x + k, gemm->x_stride, w + k, row_step * w_stride, n,
                 ahead ? ahead + k * (nr - 1) : 0, scales, acc);
    }
}

INLINE void skinny_tile(const uint32_t mr, const uint32_t nr, const enum dtype dtype,
                        const struct gemm *gemm, uint32_t token, uint32_t row, bool has_ahead)
{
    vec acc[TILE_SUMS];
    UNROLL
    for (uint32_t i = 0; i < mr * nr; i++)
        acc[i] = vec_zero();
    tile_rows(mr, nr, dtype, gemm, token, row, 1,
              has_ahead ? nr * (gemm->n_in * dtype_bytes(dtype)) : 0, acc);
    tile_finish(mr, nr, gemm, token, row, acc);
}

/* For one token: a few rows in each strip. A core's own prefetcher follows some streams that are far apart better than rows
 * that are side by side, or than prefetches of ours. */
INLINE void strips_tile(const enum dtype dtype, const struct gemm *gemm, uint32_t row,
                        uint32_t strip)
{
    vec acc[STRIPS * STRIP_ROWS];
    float sums[STRIPS * STRIP_ROWS];
    UNROLL
    for (uint32_t i = 0; i < STRIP_ROWS; i++) {
        vec side[STRIPS];
        UNROLL
        for (uint32_t s = 0; s < STRIPS; s++)
            side[s] = vec_zero();
        tile_rows(1, STRIPS, dtype, gemm, 0, row + i, strip, 0, side);
        UNROLL
        for (uint32_t s = 0; s < STRIPS; s++)
            acc[s * STRIP_ROWS + i] = side[s];
    }
    sum_each(STRIPS * STRIP_ROWS, acc, sums);
    for (uint32_t s = 0; s < STRIPS; s++)
        gemm_store(gemm, 0, row + s * strip, STRIP_ROWS, sums + s * STRIP_ROWS);
}

/* All tokens with one weight tile: it is read from memory once, later from the cache. */
INLINE void skinny_tokens(const uint32_t nr, const enum dtype dtype, const struct gemm_part *part,
                          uint32_t row)
{
    const uint32_t ahead_end = part->token + AHEAD_TOKENS;
    uint32_t token = part->token;
    for (; token + MR <= part->token_end; token += MR)
        skinny_tile(MR, nr, dtype, part->gemm, token, row, token < ahead_end);
    if (MR > 2 && token + 2 <= part->token_end) {
        skinny_tile(2, nr, dtype, part->gemm, token, row, token < ahead_end);
        token += 2;
    }
    if (token < part->token_end)
        skinny_tile(1, nr, dtype, part->gemm, token, row, token < ahead_end);
}

INLINE void skinny_rows(const enum dtype dtype, const struct gemm_part *part)
{
    uint32_t row = part->row;
    for (; row + NR <= part->row_end; row += NR)
        skinny_tokens(NR, dtype, part, row);
    for (; row < part->row_end; row++)
        skinny_tokens(1, dtype, part, row);
}

INLINE void strips_rows(const enum dtype dtype, const struct gemm_part *part)
{
    const struct gemm *gemm = part->gemm;
    for (uint32_t row = part->row; row < part->row_end; row += STRIP_ROWS) {
        if (row + (STRIPS - 1) * part->strip + STRIP_ROWS <= gemm->n_out) {
            strips_tile(dtype, gemm, row, part->strip);
            continue;
        }
        for (uint32_t s = 0; s < STRIPS; s++)
            for (uint32_t at = row + s * part->strip;
                 at < row + s * part->strip + STRIP_ROWS && at < gemm->n_out; at++)
                skinny_tile(1, 1, dtype, gemm, 0, at, false);
    }
}

INLINE void few_rows(const enum dtype dtype, const struct gemm_part *part)
{
    if (part->strip > 0)
        strips_rows(dtype, part);
    else
        skinny_rows(dtype, part);
}

static void few(const struct gemm_part *part)
{
    assert((part->gemm->n_tokens == 1) == (part->strip > 0));
    if (part->gemm->w_dtype == DTYPE_F32)
        few_rows(DTYPE_F32, part);
    else if (part->gemm->w_dtype == DTYPE_BF16)
        few_rows(DTYPE_BF16, part);
    else if (part->gemm->w_dtype == DTYPE_E4M3)
        few_rows(DTYPE_E4M3, part);
    else
        few_rows(DTYPE_F16, part);
}

/* The widened weights of one K block, and the accumulators of all tiles, which are kept between two blocks. */
struct wide_scratch {
    _Alignas(64) float w[NR * K_BLOCK];
    vec acc[TOKEN_BLOCK / MR + MR][TILE];
};

/* One K block of a weight tile. */
struct wide_block {
    const struct gemm *gemm;
    const char *w; /* float32 rows */
    size_t w_stride;
    uint32_t row, k, k_len;
};

INLINE void wide_tile(const uint32_t mr, const uint32_t nr, const struct wide_block *block,
                      uint32_t token, vec *kept)
{
    const struct gemm *gemm = block->gemm;
    vec acc[TILE_SUMS];
    UNROLL
    for (uint32_t i = 0; i < mr * nr; i++)
        acc[i] = block->k == 0 ? vec_zero() : kept[i];
    tile_run(mr, nr, DTYPE_F32, (const float *)gemm->x + token * gemm->x_stride + block->k,
             gemm->x_stride, block->w, block->w_stride, block->k_len, 0, NULL, acc);
    if (block->k + block->k_len == gemm->n_in) {
        tile_finish(mr, nr, gemm, token, block->row, acc);
        return;
    }
    UNROLL
    for (uint32_t i = 0; i < mr * nr; i++)
        kept[i] = acc[i];
}

INLINE void wide_tokens(const uint32_t nr, const struct wide_block *block, uint32_t token,
                        uint32_t token_end, struct wide_scratch *scratch)
{
    const uint32_t n_tokens = token_end - token;
    struct weights_ahead ahead = weights_ahead_of(block->gemm, block->row + nr, nr, block->k,
                                                  block->k_len, n_tokens / MR + n_tokens % MR);
    uint32_t tile = 0;
    for (; token + MR <= token_end; token += MR) {
        ask_ahead(&ahead);
        wide_tile(MR, nr, block, token, scratch->acc[tile++]);
    }
    for (; token < token_end; token++) {
        ask_ahead(&ahead);
        wide_tile(1, nr, block, token, scratch->acc[tile++]);
    }
}

/* The length of the K blocks of n_in: about equal, whole vectors, at most K_BLOCK. */
static uint32_t k_block_len(uint32_t n_in)
{
    uint32_t n_blocks = (n_in + K_BLOCK - 1) / K_BLOCK;
    return ((n_in + n_blocks - 1) / n_blocks + LANES - 1) / LANES * LANES;
}

INLINE void wide_weight_tile(const uint32_t nr, const struct gemm *gemm, uint32_t row,
                             uint32_t token, uint32_t token_end, struct wide_scratch *scratch)
{
    const uint32_t k_len = k_block_len(gemm->n_in);
    for (uint32_t k = 0; k < gemm->n_in; k += k_len) {
        struct wide_block block = {.gemm = gemm, .row = row, .k = k};
        block.k_len = gemm->n_in - k < k_len ? gemm->n_in - k : k_len;
        if (gemm->w_dtype == DTYPE_F32 && token_end - token <= IN_PLACE_MAX) {
            block.w_stride = gemm->n_in * sizeof(float);
            block.w = (const char *)gemm->w + row * block.w_stride + k * sizeof(float);
        } else {
            for (uint32_t n = 0; n < nr; n++)
                widen(gemm, row + n, k, block.k_len, scratch->w + n * k_len);
            block.w = (const char *)scratch->w;
            block.w_stride = k_len * sizeof(float);
        }
        wide_tokens(nr, &block, token, token_end, scratch);
    }
}

static void wide(const struct gemm_part *part)
{
    struct wide_scratch scratch;
    uint32_t row = part->row;
    assert(part->token_end - part->token <= TOKEN_BLOCK);
    for (; row + NR <= part->row_end; row += NR)
        wide_weight_tile(NR, part->gemm, row, part->token, part->token_end, &scratch);
    for (; row < part->row_end; row++)
        wide_weight_tile(1, part->gemm, row, part->token, part->token_end, &scratch);
}

/* The tokens of a task. Every tile of weight rows reads all of them again, so they must fit the L2 cache: with 128 tokens,
 * rows of 5,632 elements take 1.5 times as long. */
static uint32_t token_block(uint32_t n_in, size_t bytes)
{
    size_t room = bytes / (n_in * sizeof(float)) / MR * MR;
    return room < MR ? MR : room < TOKEN_BLOCK ? (uint32_t)room : TOKEN_BLOCK;
}

/* Of more than SKINNY_MAX tokens. One instruction widens 16-bit weights: with 32 registers it costs less than to keep the sums of
 * all tiles between K blocks. */
static bool is_skinny_best(const struct gemm *gemm)
{
#ifdef __AVX512F__
    return gemm->w_dtype != DTYPE_F32 && gemm->n_in > K_BLOCK;
#else
    (void)gemm;
    return false;
#endif
}

struct gemm_path gemm_f32_path(const struct gemm *gemm)
{
    /* Each tile of tokens would widen E4M3 again. */
    const bool is_scaled = gemm->w_dtype > DTYPE_F16 &&
                           (gemm->w_dtype != DTYPE_E4M3 || gemm->n_tokens > MR);
    if (is_scaled || (gemm->n_tokens > SKINNY_MAX && !is_skinny_best(gemm)))
        return (struct gemm_path){.token_block = token_block(gemm->n_in, TOKENS_BYTES),
                                  .row_step = NR,
                                  .rows_min = NR,
                                  .run = wide};
    if (gemm->n_tokens == 1)
        return (struct gemm_path){.token_block = 1,
                                  .row_step = STRIP_ROWS,
                                  .rows_min = STRIP_ROWS,
                                  .n_strips = STRIPS,
                                  .run = few};
    /* A few tokens are not divided: their time goes by reading the weights. */
    const uint32_t tokens = gemm->n_tokens <= SKINNY_MAX
                                ? SKINNY_MAX
                                : token_block(gemm->n_in, SKINNY_TOKENS_BYTES);
    return (struct gemm_path){.token_block = tokens, .row_step = NR, .rows_min = NR, .run = few};
}
