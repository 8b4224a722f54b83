#include "kernels/cpu/products/gemm_blocks.h"

#include "kernels/cpu/products/block_panel.h"
#include "kernels/cpu/products/block_rows.h"
#include "kernels/cpu/vector/pairs16.h"

#include <assert.h>

#if defined __AVX512F__
enum { MR = 8 };
#elif defined __AVX2__
enum { MR = 4 }; /* 8 registers of sums, 4 of weights, 2 of x */
#else
enum { MR = 2 };
#endif
enum {
    TOKENS_MAX = 128,
    TOKENS_BYTES_BEST = 256 << 10, /* of a task: they stay in the second-level cache */
    PIECE_TOKENS = 4,              /* which one task rounds for the call */
    LARGEST = 32767,
};

/* ---- tokens ---- */

static struct rounded16 rounded16_from(struct rounded16 x, size_t token, size_t k)
{
    x.counts += token * x.stride + k;
    x.scales += (token * x.stride + k) / PART;
    x.sums += (token * x.stride + k) / SUMS_STEP;
    return x;
}

/* n_tokens of n_in elements, in memory of gemm_blocks_bytes. */
static struct rounded16 rounded16_in(void *memory, size_t n_tokens, size_t n_in)
{
    struct rounded16 x = {.counts = memory, .stride = n_in};
    x.scales = (float *)(void *)(x.counts + n_tokens * n_in);
    x.sums = (int32_t *)(void *)(x.scales + n_tokens * (n_in / PART));
    return x;
}

size_t gemm_blocks_bytes(uint32_t n_tokens, uint32_t n_in)
{
    const size_t n_parts = ((size_t)n_in + PART - 1) / PART;
    const size_t part = PART * sizeof(int16_t) + sizeof(float) + PART / SUMS_STEP * sizeof(int32_t);
    return (n_tokens * n_parts * part + 63) / 64 * 64;
}

/* Rounds n elements. A NaN or an infinity makes the scale NaN. */
static void round_run(const float *x, uint32_t n, const struct rounded16 *out)
{
    for (uint32_t k = 0; k < n; k += PART) {
        const vec a = vec_load(x + k), b = vec_load(x + k + LANES), zero = vec_zero();
        const vec most = vec_max(vec_max(a, vec_sub(zero, a)), vec_max(b, vec_sub(zero, b)));
        const vec poison = vec_fma(a, zero, vec_fma(b, zero, zero));
        const float largest = vec_largest(most);
        const vec inverse = vec_set(largest > 0 ? LARGEST / largest : 0);
        UNROLL
        for (uint32_t i = 0; i < PART; i += LANES) {
            /* In this order NaN becomes a number: the scale shows the NaN. */
            vec v = vec_round(vec_mul(i == 0 ? a : b, inverse));
            v = vec_min(vec_set(LARGEST), vec_max(v, vec_set(-LARGEST)));
            step16_store(out->counts + k + i, v);
            out->sums[(k + i) / SUMS_STEP] = (int32_t)vec_sum(v);
        }
        out->scales[k / PART] = largest / LARGEST + vec_sum(poison);
    }
}

static const float *token_of(const struct gemm *gemm, uint32_t token)
{
    return (const float *)gemm->x + token * gemm->x_stride;
}

/* Rounds a piece of the tokens of the call. */
static void prepare(const struct gemm *gemm, uint32_t piece, void *tokens_out)
{
    const struct rounded16 all = rounded16_in(tokens_out, gemm->n_tokens, gemm->n_in);
    const uint32_t first = piece * PIECE_TOKENS, left = gemm->n_tokens - first;
    for (uint32_t t = first; t < first + (left < PIECE_TOKENS ? left : PIECE_TOKENS); t++) {
        const struct rounded16 x = rounded16_from(all, t, 0);
        round_run(token_of(gemm, t), gemm->n_in, &x);
    }
}

/* ---- products ---- */

typedef void dot_function(const int16_t *wide, const int16_t *counts, size_t stride,
                          sums16 *sums_out);

/* The sums of a group: sixteen rows against mr tokens, a stride apart. */
INLINE void group_dot(const uint32_t mr, const uint32_t group, const int16_t *wide,
                      const int16_t *counts, size_t stride, sums16 *sums_out)
{
    sums16 acc[MR];
    UNROLL
    for (uint32_t m = 0; m < mr; m++)
        acc[m] = sums16_begin(0);
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

/* Not inlined: among other code the compiler would store the sums in every step. */
#define DOT(mr, group)                                                                             \
    static __attribute__((noinline)) void dot_##mr##_##group(                                      \
        const int16_t *wide, const int16_t *counts, size_t stride, sums16 *sums_out)               \
    {                                                                                              \
        group_dot(mr, group, wide, counts, stride, sums_out);                                      \
    }
#define DOTS(mr) DOT(mr, 16) DOT(mr, 32)

/* y of mr tokens and sixteen rows += n elements; x is where both begin. */
INLINE void tile_run(const uint32_t mr, const uint32_t group, const bool has_offsets,
                     dot_function *dot, const struct block_panel *panel, const struct rounded16 *x,
                     uint32_t n, int32_t bias, float (*y)[LANES])
{
    const size_t scale_stride = x->stride / PART;
    for (uint32_t i = 0, k = 0; k < n; i++, k += group) {
        const vec factors = vec_load(panel->factors[i]);
        const float *scales = x->scales + k / PART;
        sums16 sums[MR];
        dot(panel->wide + (size_t)k * LANES, x->counts + k, x->stride, sums);
        UNROLL
        for (uint32_t m = 0; m < mr; m++) {
            const vec scale = vec_set(scales[m * scale_stride]);
            const int32_t x_sum = rounded16_sum(x, m * x->stride + k, group);
            if (!has_offsets)
                sums[m] = sums16_less(sums[m], bias * x_sum);
            vec out = vec_fma(sums16_to_vec(sums[m]), vec_mul(factors, scale), vec_load(y[m]));
            if (has_offsets)
                out = vec_fma(vec_load(panel->offsets[i]), vec_mul(vec_set((float)x_sum), scale),
                              out);
            vec_store(y[m], out);
        }
    }
}

#define TILE(mr, group, has_offsets)                                                               \
    static void tile_##mr##_##group##_##has_offsets(const struct block_panel *panel,               \
                                                    const struct rounded16 *x, uint32_t n,         \
                                                    int32_t bias, float(*y)[LANES])                \
    {                                                                                              \
        tile_run(mr, group, has_offsets, dot_##mr##_##group, panel, x, n, bias, y);                \
    }
#define TILES(mr) DOTS(mr) TILE(mr, 16, 0) TILE(mr, 16, 1) TILE(mr, 32, 0) TILE(mr, 32, 1)

typedef void tile_function(const struct block_panel *, const struct rounded16 *, uint32_t, int32_t,
                           float (*)[LANES]);

TILES(1)
TILES(2)
#ifdef __AVX2__
TILES(4)
#endif
#ifdef __AVX512F__
TILES(8)
#endif

/* The tile for n tokens or fewer, and how many it takes. */
static tile_function *tile_of(const struct gemm *gemm, uint32_t n, uint32_t *n_out)
{
    /* By groups of 16, 32; by offsets. */
    static tile_function *const TILES_OF[][2][2] = {
        {{tile_1_16_0, tile_1_16_1}, {tile_1_32_0, tile_1_32_1}},
        {{tile_2_16_0, tile_2_16_1}, {tile_2_32_0, tile_2_32_1}},
#ifdef __AVX2__
        {{tile_4_16_0, tile_4_16_1}, {tile_4_32_0, tile_4_32_1}},
#endif
#ifdef __AVX512F__
        {{tile_8_16_0, tile_8_16_1}, {tile_8_32_0, tile_8_32_1}},
#endif
    };
    uint32_t i = sizeof TILES_OF / sizeof *TILES_OF - 1;
    while (1u << i > n)
        i--;
    *n_out = 1u << i;
    return TILES_OF[i][block_group(gemm->w_dtype) == PART][blocks_have_offsets(gemm->w_dtype)];
}

struct scratch {
    struct block_panel panel;
    _Alignas(64) float y[TOKENS_MAX][LANES];
    /* A tile's tokens, where the call has none prepared. */
    _Alignas(64) int16_t counts[MR * CHUNK];
    float scales[MR * CHUNK_PARTS];
    int32_t sums[MR * CHUNK_FACTORS];
};

static struct rounded16 round_tile(const struct gemm *gemm, uint32_t token, uint32_t n_tokens,
                                   uint32_t k, uint32_t n, struct scratch *scratch)
{
    const struct rounded16 all = {scratch->counts, scratch->scales, scratch->sums, CHUNK};
    for (uint32_t t = 0; t < n_tokens; t++) {
        const struct rounded16 x = rounded16_from(all, t, 0);
        round_run(token_of(gemm, token + t) + k, n, &x);
    }
    return all;
}

/* n elements from k on of sixteen rows, which the panel has. */
static void run_chunk(const struct gemm_part *part, uint32_t k, uint32_t n, struct scratch *scratch)
{
    const struct gemm *gemm = part->gemm;
    const uint32_t n_tokens = part->token_end - part->token;
    /* Without const: prepare() fills the same struct. Tasks only read. */
    void *prepared = (void *)(uintptr_t)part->tokens;
    for (uint32_t t = 0, mr; t < n_tokens; t += mr) {
        tile_function *run = tile_of(gemm, n_tokens - t, &mr);
        const uint32_t token = part->token + t;
        const struct rounded16 x = prepared ? rounded16_from(rounded16_in(prepared, gemm->n_tokens,
                                                                          gemm->n_in),
                                                             token, k)
                                            : round_tile(gemm, token, mr, k, n, scratch);
        run(&scratch->panel, &x, n, block_bias(gemm->w_dtype), scratch->y + t);
    }
}

#ifdef __AVX2__
/* One token, which the call has prepared: its product needs no panel. */
static void run_one(const struct gemm_part *part)
{
    const struct gemm *gemm = part->gemm;
    void *prepared = (void *)(uintptr_t)part->tokens;
    const struct rounded16 x = rounded16_in(prepared, 1, gemm->n_in);
    for (uint32_t row = part->row; row < part->row_end; row += LANES) {
        float y[LANES];
        block_rows_multiply(gemm, row, &x, y);
        gemm_store_vec(gemm, 0, row, vec_load(y));
    }
}
#endif

static void run(const struct gemm_part *part)
{
#ifdef __AVX2__
    if (part->gemm->n_tokens == 1 && part->tokens) {
        run_one(part);
        return;
    }
#endif
    const struct gemm *gemm = part->gemm;
    const uint32_t n_tokens = part->token_end - part->token;
    struct scratch scratch;
    assert(part->row % LANES == 0 && n_tokens <= TOKENS_MAX);
    for (uint32_t row = part->row; row < part->row_end; row += LANES) {
        memset(scratch.y, 0, n_tokens * sizeof *scratch.y);
        for (uint32_t k = 0; k < gemm->n_in; k += CHUNK) {
            const uint32_t n = gemm->n_in - k < CHUNK ? gemm->n_in - k : CHUNK;
            block_panel_take(gemm, row, k, n, &scratch.panel);
            run_chunk(part, k, n, &scratch);
        }
        for (uint32_t t = 0; t < n_tokens; t++)
            gemm_store_vec(gemm, part->token + t, row, vec_load(scratch.y[t]));
    }
}

/* Blocks of tokens of about the same size, of whole tiles. */
static uint32_t task_tokens(const struct gemm *gemm)
{
    const uint32_t room = (uint32_t)(TOKENS_BYTES_BEST / gemm_blocks_bytes(1, gemm->n_in));
    const uint32_t most = room < MR ? MR : room > TOKENS_MAX ? TOKENS_MAX : room / MR * MR;
    const uint32_t n_blocks = (gemm->n_tokens + most - 1) / most;
    return (gemm->n_tokens + n_blocks * MR - 1) / (n_blocks * MR) * MR;
}

struct gemm_path gemm_blocks_path(const struct gemm *gemm)
{
    return (struct gemm_path){.token_block = task_tokens(gemm),
                              .row_step = LANES,
                              .rows_min = LANES,
                              .run = run,
                              .prepare = prepare,
                              .n_pieces = (gemm->n_tokens + PIECE_TOKENS - 1) / PIECE_TOKENS,
                              .tokens_bytes = gemm_blocks_bytes(gemm->n_tokens, gemm->n_in)};
}

struct gemm_path gemm_blocks_path_alone(const struct gemm *gemm)
{
    struct gemm_path path = gemm_blocks_path(gemm);
    path.prepare = NULL;
    return path;
}
