#include "kernels/cpu/products/gemm_blocks.h"

#include "kernels/cpu/products/block_panel.h"
#include "kernels/cpu/products/block_rows.h"
#include "kernels/cpu/products/block_tiles.h"
#include "kernels/cpu/products/block_unit.h"

#include <assert.h>

enum {
    TOKENS_MAX = 128, /* of a task */
    ROUNDED_MAX = 16, /* of a task that rounds its own */
    FEW_TOKENS = 32,  /* which read their rows one after another, FEW_PANELS at a time */
    FEW_PANELS = 2,
    SUMS_MAX = 64 / LANES,     /* panels whose y a task keeps from chunk to chunk */
    PIECE_TOKENS = 4,          /* which one task rounds for the call */
    LARGEST = 127 * 256 + 127, /* of two bytes with signs */
    LARGEST_INT8 = 127,
#ifdef HAS_AMX_INT8
    TOKEN_STEP = UNIT_TOKENS, /* of a task */
#else
    TOKEN_STEP = MR,
#endif
};

/* ---- tokens ---- */

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

/* Rounds n elements to whole numbers up to `most`. A NaN or an infinity makes the scale NaN. */
static void round_run(const float *x, uint32_t n, int most, const struct rounded16 *out)
{
    for (uint32_t k = 0; k < n; k += PART) {
        const vec a = vec_load(x + k), b = vec_load(x + k + LANES), zero = vec_zero();
        const vec sizes = vec_max(vec_max(a, vec_sub(zero, a)), vec_max(b, vec_sub(zero, b)));
        const vec poison = vec_fma(a, zero, vec_fma(b, zero, zero));
        const float largest = vec_largest(sizes), limit = (float)most;
        const vec inverse = vec_set(largest > 0 ? limit / largest : 0);
        UNROLL
        for (uint32_t i = 0; i < PART; i += LANES) {
            /* In this order NaN becomes a number: the scale shows the NaN. */
            vec v = vec_round(vec_mul(i == 0 ? a : b, inverse));
            v = vec_min(vec_set(limit), vec_max(v, vec_set(-limit)));
#ifdef HAS_BYTES16
            bytes16_store((uint8_t *)(out->counts + k), i, v);
#else
            step16_store(out->counts + k + i, v);
#endif
            out->sums[(k + i) / SUMS_STEP] = (int32_t)vec_sum(v);
        }
        out->scales[k / PART] = largest / limit + vec_sum(poison);
    }
}

static int largest_of(const struct gemm *gemm)
{
    return gemm->x_is_int8 ? LARGEST_INT8 : LARGEST;
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
        round_run(token_of(gemm, t), gemm->n_in, largest_of(gemm), &x);
    }
}

/* ---- products ---- */

struct scratch {
    struct block_panel panels[NR];
    _Alignas(64) sixteen y[SUMS_MAX][TOKENS_MAX];
    union group_term terms[TOKENS_MAX][CHUNK_FACTORS];
    /* A chunk of tokens, where the call has none prepared. */
    _Alignas(64) int16_t counts[ROUNDED_MAX * CHUNK];
    float scales[ROUNDED_MAX * CHUNK_PARTS];
    int32_t sums[ROUNDED_MAX * CHUNK_FACTORS];
};

/* n elements from k on of the tokens of a task. */
static struct rounded16 tokens_at(const struct gemm_part *part, uint32_t k, uint32_t n,
                                  struct scratch *scratch)
{
    const struct gemm *gemm = part->gemm;
    const struct rounded16 own = {scratch->counts, scratch->scales, scratch->sums, CHUNK};
    /* Without const: prepare() fills the same struct. Tasks only read. */
    void *prepared = (void *)(uintptr_t)part->tokens;
    if (prepared)
        return rounded16_from(rounded16_in(prepared, gemm->n_tokens, gemm->n_in), part->token, k);
    for (uint32_t t = part->token; t < part->token_end; t++) {
        const struct rounded16 x = rounded16_from(own, t - part->token, 0);
        round_run(token_of(gemm, t) + k, n, largest_of(gemm), &x);
    }
    return own;
}

/* What a thread reads after the rows of a group, a piece at a time. It lies behind them in one run, which memory brings faster than
 * the same bytes row by row. */
struct bytes_ahead {
    const char *at, *end;
    size_t piece;
};

static struct bytes_ahead bytes_behind(const struct gemm *gemm, uint32_t row_end, uint32_t n_rows,
                                       uint32_t n_pieces)
{
    const size_t row_bytes = dtype_array_bytes(gemm->w_dtype, gemm->n_in);
    const uint32_t left = row_end < gemm->n_out ? gemm->n_out - row_end : 0;
    const size_t bytes = (left < n_rows ? left : n_rows) * row_bytes;
    const char *first = (const char *)gemm->w + row_end * row_bytes;
    return (struct bytes_ahead){first, first + bytes, bytes / n_pieces + 1};
}

static void ask_for_piece(struct bytes_ahead *ahead)
{
    const char *end = (size_t)(ahead->end - ahead->at) < ahead->piece ? ahead->end
                                                                      : ahead->at + ahead->piece;
    for (; ahead->at < end; ahead->at += 64)
        vec_prefetch(ahead->at);
}

/* Asks for a chunk of rows, which is in the second-level cache by now. */
static void ask_for_chunk(const struct gemm *gemm, uint32_t row, uint32_t n_rows, uint32_t k)
{
    const size_t row_bytes = dtype_array_bytes(gemm->w_dtype, gemm->n_in);
    const size_t n = dtype_array_bytes(gemm->w_dtype, CHUNK);
    const char *first = (const char *)gemm->w + dtype_array_bytes(gemm->w_dtype, k);
    for (uint32_t r = row; r < row + n_rows && r < gemm->n_out; r++)
        for (size_t i = 0; i < n; i += 64)
            vec_prefetch(first + r * row_bytes + i);
}

/* A chunk from token t on. */
static struct token_chunk chunk_from(const struct token_chunk *all, uint32_t t)
{
    return (struct token_chunk){rounded16_from(all->x, t, 0), all->terms + t, all->is_int8};
}

#ifdef HAS_AMX_INT8
/* Sixteen tokens at a time. Returns how many it has computed. */
static uint32_t run_unit(const struct gemm *gemm, uint32_t n_panels, uint32_t n,
                         const struct token_chunk *all, uint32_t n_tokens, sixteen (*y)[TOKENS_MAX],
                         const struct block_panel *panels)
{
    uint32_t t = 0;
    for (; t + UNIT_TOKENS <= n_tokens; t += UNIT_TOKENS) {
        const struct token_chunk chunk = chunk_from(all, t);
        for (uint32_t i = 0; i < n_panels; i++)
            unit_of(gemm->w_dtype)(&panels[i], &chunk, n, y[i] + t);
    }
    return t;
}
#endif

/* n elements from k on of n_panels panels from a row on, against all tokens of the task. */
static void run_panels(const struct gemm_part *part, uint32_t row, uint32_t n_panels, uint32_t k,
                       uint32_t n, const struct token_chunk *all, sixteen (*y)[TOKENS_MAX],
                       struct block_panel *panels)
{
    const uint32_t n_tokens = part->token_end - part->token;
    for (uint32_t i = 0; i < n_panels; i++)
        block_panel_take(part->gemm, row + i * LANES, k, n, &panels[i]);
    if (n_tokens <= FEW_TOKENS && k + CHUNK < part->gemm->n_in)
        ask_for_chunk(part->gemm, row, n_panels * LANES, k + CHUNK);
    uint32_t t = 0;
#ifdef HAS_AMX_INT8
    t = run_unit(part->gemm, n_panels, n, all, n_tokens, y, panels);
#endif
    for (uint32_t mr; t < n_tokens; t += mr) {
        tile_function *run = tile_of(part->gemm, n_tokens - t, n_panels, &mr);
        const struct token_chunk chunk = chunk_from(all, t);
        sixteen *const y_of[2] = {y[0] + t, y[n_panels - 1] + t};
        run(panels, &chunk, n, y_of);
    }
}

static uint32_t fewer(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* All elements of n_panels panels from a row on. */
static void run_rows(const struct gemm_part *part, uint32_t row, uint32_t n_panels,
                     struct scratch *scratch)
{
    const struct gemm *gemm = part->gemm;
    const uint32_t n_tokens = part->token_end - part->token;
    const uint32_t n_pieces = (gemm->n_in + CHUNK - 1) / CHUNK * ((n_panels + NR - 1) / NR);
    struct bytes_ahead ahead = bytes_behind(gemm, row + n_panels * LANES, n_panels * LANES,
                                            n_pieces);
    for (uint32_t i = 0; i < n_panels; i++)
        memset(scratch->y[i], 0, n_tokens * sizeof *scratch->y[i]);
    for (uint32_t k = 0; k < gemm->n_in; k += CHUNK) {
        const uint32_t n = fewer(gemm->n_in - k, CHUNK);
        const struct token_chunk chunk = {tokens_at(part, k, n, scratch), scratch->terms,
                                          gemm->x_is_int8};
        take_terms(gemm->w_dtype, &chunk.x, n_tokens, n, scratch->terms);
        for (uint32_t i = 0; i < n_panels; i += NR) {
            ask_for_piece(&ahead);
            run_panels(part, row + i * LANES, fewer(n_panels - i, NR), k, n, &chunk, scratch->y + i,
                       scratch->panels);
        }
    }
    for (uint32_t i = 0; i < n_panels; i++)
        for (uint32_t t = 0; t < n_tokens; t++)
            gemm_store_vec(gemm, part->token + t, row + i * LANES, vec_load(scratch->y[i][t]));
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
    const uint32_t n_panels = (part->row_end - part->row + LANES - 1) / LANES;
    struct scratch scratch;
    assert(part->row % LANES == 0 && part->token_end - part->token <= TOKENS_MAX);
    assert(part->tokens || part->token_end - part->token <= ROUNDED_MAX);
    /* Few tokens read their rows one after another; many read a chunk of theirs for more rows. */
    const uint32_t most = part->token_end - part->token <= FEW_TOKENS ? FEW_PANELS : SUMS_MAX;
#ifdef HAS_AMX_INT8
    const bool uses_unit = part->token_end - part->token >= UNIT_TOKENS;
    if (uses_unit)
        amx_start((uint8_t)block_group(part->gemm->w_dtype), LANES);
#endif
    for (uint32_t i = 0; i < n_panels; i += most)
        run_rows(part, part->row + i * LANES, fewer(n_panels - i, most), &scratch);
#ifdef HAS_AMX_INT8
    if (uses_unit)
        amx_finish();
#endif
}

/* Blocks of tokens of about the same size, of whole tiles. */
static uint32_t task_tokens(uint32_t n_tokens, uint32_t most)
{
    const uint32_t n_blocks = (n_tokens + most - 1) / most;
    return (n_tokens + n_blocks * TOKEN_STEP - 1) / (n_blocks * TOKEN_STEP) * TOKEN_STEP;
}

struct gemm_path gemm_blocks_path(const struct gemm *gemm)
{
    return (struct gemm_path){
        .token_block = task_tokens(gemm->n_tokens, TOKENS_MAX / TOKEN_STEP * TOKEN_STEP),
        .row_step = NR * LANES,
        .rows_min = NR * LANES,
        .run = run,
        .prepare = prepare,
        .n_pieces = (gemm->n_tokens + PIECE_TOKENS - 1) / PIECE_TOKENS,
        .tokens_bytes = gemm_blocks_bytes(gemm->n_tokens, gemm->n_in)};
}

struct gemm_path gemm_blocks_path_alone(const struct gemm *gemm)
{
    struct gemm_path path = gemm_blocks_path(gemm);
    path.token_block = task_tokens(gemm->n_tokens, ROUNDED_MAX / TOKEN_STEP * TOKEN_STEP);
    path.prepare = NULL;
    return path;
}
