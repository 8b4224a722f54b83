/*
 * gemm_amx_bf16 - multiplies BF16 weights with the matrix unit, with all bits of float32 activations.
 *
 * A float32 has 24 bits, a BF16 8: x = x1 + x2 + x3 exactly, where each part is BF16. The unit multiplies
 * BF16 exactly and adds in float32, so three products give the result of a float32 product, each at a sixteenth
 * of its cost. Weights are the first operand, read from the file in place: 16 rows x 32 elements. The
 * second operand is [32 / 2][tokens][2] of one part of x; each task packs it.
 *
 *     sums[row][token] += w x1, then w x2, then w x3, for each 32 elements in order
 *
 * So the bits of y[t][o] depend only on row o and x[t]. Products below 2^-126 count as zero.
 *
 * Long rows are divided into blocks of as many steps as fit the L2 cache. The sums of some rows are kept between two
 * blocks.
 */
#include "kernels/cpu/products/gemm_path.h"

#ifdef HAS_AMX_BF16

#include "kernels/cpu/vector/amx.h"

#include <assert.h>

enum {
    TILE = 16,
    STEP = 32, /* elements of a row in a tile */
    TILE_BYTES = 1024,
    QUAD = 4,  /* tiles of rows */
    PARTS = 3, /* of an activation */
    TOKENS = 64,
    MEMORY_BYTES = 512 << 10,
    KEPT_ROWS = 1024, /* rows with kept sums; tokens are packed again for each KEPT_ROWS rows */
    FEW = 8,          /* with at most this many tokens, weights come from memory */
    ROWS_MIN = 64,
};

/* The packed tokens of a task, for the steps of one block: groups of `columns` tokens, each
 * [steps][PARTS][STEP / 2][columns][2] of BF16. */
struct parts {
    const struct gemm_part *part;
    char *memory;
    float *kept; /* [rows / TILE][groups][TILE][TILE] sums between blocks */
    uint32_t row, row_end;
    uint32_t columns, step, step_end;
    size_t tile_bytes, group_bytes;
};

static uint32_t steps_of(const struct gemm *gemm)
{
    return (gemm->n_in + STEP - 1) / STEP;
}

/* ---- activations ---- */

/* Takes the leading 8 bits of each float; x keeps the rest. */
INLINE __m256i take_part(vec *x)
{
    __m512i bits = _mm512_and_si512(_mm512_castps_si512(*x), _mm512_set1_epi32((int)0xffff0000));
    *x = vec_sub(*x, _mm512_castsi512_ps(bits));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(bits, 16));
}

/* Splits 32 elements of a token into [PARTS][STEP / 2] pairs. */
static void split(const float *x, uint32_t n, uint32_t pairs_out[PARTS][TILE])
{
    for (uint32_t half = 0; half < 2; half++) {
        uint32_t first = half * LANES;
        vec v = vec_zero();
        if (n >= first + LANES)
            v = vec_load(x + first);
        else if (n > first)
            v = vec_load_some(DTYPE_F32, x + first, n - first);
        for (uint32_t p = 0; p < PARTS; p++)
            _mm256_storeu_si256((__m256i *)(void *)&pairs_out[p][half * LANES / 2], take_part(&v));
    }
}

/* rows[i][j] = rows[j][i]: four rounds that exchange blocks of 1, 2, 4 and 8. */
static void transpose(__m512i rows[TILE])
{
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    UNROLL
    for (int apart = 1; apart < TILE; apart *= 2) {
        const __m512i step = _mm512_set1_epi32(apart);
        const __mmask16 is_second = _mm512_test_epi32_mask(lanes, step);
        /* low takes lanes of the first row of a pair, then of the second; high the other lanes. */
        const __m512i low = _mm512_mask_add_epi32(lanes, is_second, _mm512_sub_epi32(lanes, step),
                                                  _mm512_set1_epi32(TILE));
        const __m512i high = _mm512_mask_add_epi32(_mm512_add_epi32(lanes, step), is_second, lanes,
                                                   _mm512_set1_epi32(TILE));
        UNROLL
        for (int i = 0; i < TILE; i++) {
            if (i & apart)
                continue;
            __m512i first = rows[i], second = rows[i | apart];
            rows[i] = _mm512_permutex2var_epi32(first, low, second);
            rows[i | apart] = _mm512_permutex2var_epi32(first, high, second);
        }
    }
}

/* Packs one step of one group: [PARTS] tiles. */
static void pack_step(const struct parts *parts, uint32_t token, uint32_t n_tokens, uint32_t step,
                      uint32_t *tiles)
{
    const struct gemm *gemm = parts->part->gemm;
    uint32_t pairs[TILE][PARTS][TILE] = {0};
    for (uint32_t t = 0; t < n_tokens; t++)
        split((const float *)gemm->x + (token + t) * gemm->x_stride + step * STEP,
              gemm->n_in - step * STEP, pairs[t]);
    for (uint32_t p = 0; p < PARTS; p++, tiles += TILE * parts->columns) {
        if (parts->columns < TILE) {
            for (uint32_t t = 0; t < parts->columns; t++)
                for (uint32_t i = 0; i < TILE; i++)
                    tiles[i * parts->columns + t] = pairs[t][p][i];
            continue;
        }
        __m512i rows[TILE];
        for (uint32_t t = 0; t < TILE; t++)
            rows[t] = _mm512_loadu_si512(pairs[t][p]);
        transpose(rows);
        for (uint32_t i = 0; i < TILE; i++)
            _mm512_storeu_si512(tiles + i * TILE, rows[i]);
    }
}

static void pack(const struct parts *parts)
{
    const struct gemm_part *part = parts->part;
    char *group = parts->memory;
    for (uint32_t token = part->token; token < part->token_end; token += parts->columns) {
        uint32_t left = part->token_end - token;
        char *tiles = group;
        for (uint32_t step = parts->step; step < parts->step_end; step++) {
            pack_step(parts, token, left < parts->columns ? left : parts->columns, step,
                      (uint32_t *)(void *)tiles);
            tiles += PARTS * parts->tile_bytes;
        }
        group += parts->group_bytes;
    }
}

/* ---- products ---- */

/* The rows from `row` on, for one step. If the tile load would read past the end of the matrix, the rows are copied. */
static const char *tile_rows(const struct gemm *gemm, uint32_t row, uint32_t step,
                             uint16_t copy[TILE][STEP], size_t *stride_out)
{
    const char *w = (const char *)gemm->w + 2 * ((size_t)row * gemm->n_in + step * STEP);
    uint32_t n_rows = gemm->n_out - row < TILE ? gemm->n_out - row : TILE;
    uint32_t n = gemm->n_in - step * STEP < STEP ? gemm->n_in - step * STEP : STEP;
    *stride_out = 2 * (size_t)gemm->n_in;
    if (n_rows == TILE && n == STEP)
        return w;
    memset(copy, 0, sizeof(uint16_t[TILE][STEP]));
    for (uint32_t r = 0; r < n_rows; r++)
        memcpy(copy[r], w + r * *stride_out, 2 * n);
    *stride_out = sizeof copy[0];
    amx_settle(copy);
    return (const char *)copy;
}

/* sums: [16 rows][16 tokens]. */
static void store(const struct parts *parts, uint32_t token, uint32_t row, float sums[TILE][TILE])
{
    const struct gemm_part *part = parts->part;
    uint32_t n_tokens = part->token_end - token;
    n_tokens = n_tokens < parts->columns ? n_tokens : parts->columns;
    uint32_t n_rows = part->gemm->n_out - row < TILE ? part->gemm->n_out - row : TILE;
    __m512i rows[TILE];
    for (uint32_t i = 0; i < TILE; i++)
        rows[i] = _mm512_loadu_si512(sums[i]);
    transpose(rows);
    for (uint32_t t = 0; t < n_tokens; t++) {
        float *y = (float *)part->gemm->y + (token + t) * part->gemm->y_stride + row;
        vec sum = _mm512_castsi512_ps(rows[t]);
        if (n_rows == TILE && !part->gemm->bias) {
            vec_store(y, part->gemm->accumulate ? vec_add(vec_load(y), sum) : sum);
        } else {
            vec_store(sums[0], sum);
            gemm_store(part->gemm, token + t, row, n_rows, sums[0]);
        }
    }
}

/* Where the sums of 16 rows and a group are kept until the next block. */
static float *kept_sums(const struct parts *parts, uint32_t token, uint32_t row)
{
    const uint32_t group = (token - parts->part->token) / TILE;
    return parts->kept +
           ((size_t)(row - parts->row) / TILE * (TOKENS / TILE) + group) * TILE * TILE;
}

static bool is_last(const struct parts *parts)
{
    return parts->step_end == steps_of(parts->part->gemm);
}

#define SUM_BYTES (TILE * sizeof(float))
/* Begins and ends a sum tile. It begins with zeros or kept sums, and ends in store or as kept sums. */
#define SUM_BEGIN(tile, token, row)                                                                \
    do {                                                                                           \
        if (parts->step == 0)                                                                      \
            _tile_zero(tile);                                                                      \
        else                                                                                       \
            _tile_loadd(tile, kept_sums(parts, token, row), SUM_BYTES);                            \
    } while (0)
#define SUM_END(tile, token, row, sums)                                                            \
    do {                                                                                           \
        if (is_last(parts)) {                                                                      \
            _tile_stored(tile, sums, SUM_BYTES);                                                   \
            store(parts, token, row, sums);                                                        \
        } else {                                                                                   \
            _tile_stored(tile, kept_sums(parts, token, row), SUM_BYTES);                           \
        }                                                                                          \
    } while (0)

/* Prefetches later rows line after line, which suits memory best; the current rows are read side by side. */
INLINE void prefetch_lines(const char *line, uint32_t n)
{
    UNROLL
    for (uint32_t i = 0; i < n; i++)
        _mm_prefetch(line + 64 * (size_t)i, _MM_HINT_T1);
}

/* Computes 16 rows by one group. */
static void single(const struct parts *parts, const char *group, uint32_t token, uint32_t row)
{
    const struct gemm *gemm = parts->part->gemm;
    const size_t stride = 4 * (size_t)parts->columns;
    const char *x = group;
    _Alignas(64) float sums[TILE][TILE] = {{0}};
    _Alignas(64) uint16_t copy[TILE][STEP];
    SUM_BEGIN(0, token, row);
    for (uint32_t step = parts->step; step < parts->step_end; step++) {
        size_t w_stride;
        const char *w = tile_rows(gemm, row, step, copy, &w_stride);
        _tile_loadd(4, w, w_stride);
        _tile_loadd(6, x, stride);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, x + parts->tile_bytes, stride);
        _tile_dpbf16ps(0, 4, 7);
        _tile_loadd(6, x + 2 * parts->tile_bytes, stride);
        _tile_dpbf16ps(0, 4, 6);
        x += PARTS * parts->tile_bytes;
    }
    SUM_END(0, token, row, sums);
}

#define QUAD_TILE(sum)                                                                             \
    do {                                                                                           \
        const char *w = tile_rows(gemm, row + (sum)*TILE, step, copies[sum], &w_stride);           \
        _tile_loadd(4, w, w_stride);                                                               \
        _tile_dpbf16ps(sum, 4, 5);                                                                 \
        _tile_dpbf16ps(sum, 4, 6);                                                                 \
        _tile_dpbf16ps(sum, 4, 7);                                                                 \
    } while (0)

/* Computes 64 rows by one group. A sum has a latency of 52 cycles; meanwhile the other three sums are added to. */
static void quad(const struct parts *parts, const char *group, uint32_t token, uint32_t row)
{
    const struct gemm *gemm = parts->part->gemm;
    const size_t stride = 4 * (size_t)parts->columns;
    const char *next = (const char *)gemm->w + 2 * ((size_t)row + 2 * QUAD * TILE) * gemm->n_in;
    const char *x = group;
    _Alignas(64) float sums[QUAD][TILE][TILE] = {{{0}}};
    _Alignas(64) uint16_t copies[QUAD][TILE][STEP];
    SUM_BEGIN(0, token, row);
    SUM_BEGIN(1, token, row + TILE);
    SUM_BEGIN(2, token, row + 2 * TILE);
    SUM_BEGIN(3, token, row + 3 * TILE);
    for (uint32_t step = parts->step; step < parts->step_end; step++) {
        size_t w_stride;
        prefetch_lines(next + step * (size_t)(QUAD * TILE_BYTES), QUAD * TILE);
        _tile_loadd(5, x, stride);
        _tile_loadd(6, x + parts->tile_bytes, stride);
        _tile_loadd(7, x + 2 * parts->tile_bytes, stride);
        QUAD_TILE(0);
        QUAD_TILE(1);
        QUAD_TILE(2);
        QUAD_TILE(3);
        x += PARTS * parts->tile_bytes;
    }
    SUM_END(0, token, row, sums[0]);
    SUM_END(1, token, row + TILE, sums[1]);
    SUM_END(2, token, row + 2 * TILE, sums[2]);
    SUM_END(3, token, row + 3 * TILE, sums[3]);
}

/* Computes 32 rows by two groups: each loaded tile is used twice. */
static void square(const struct parts *parts, const char *group, uint32_t token, uint32_t row)
{
    const struct gemm *gemm = parts->part->gemm;
    const char *x = group;
    _Alignas(64) float sums[TILE][TILE];
    _Alignas(64) uint16_t copies[2][TILE][STEP];
    SUM_BEGIN(0, token, row);
    SUM_BEGIN(1, token + TILE, row);
    SUM_BEGIN(2, token, row + TILE);
    SUM_BEGIN(3, token + TILE, row + TILE);
    for (uint32_t step = parts->step; step < parts->step_end; step++) {
        size_t stride;
        const char *w = tile_rows(gemm, row, step, copies[0], &stride);
        _tile_loadd(4, w, stride);
        w = tile_rows(gemm, row + TILE, step, copies[1], &stride);
        _tile_loadd(5, w, stride);
        for (uint32_t p = 0; p < PARTS; p++, x += parts->tile_bytes) {
            _tile_loadd(6, x, 64);
            _tile_dpbf16ps(0, 4, 6);
            _tile_dpbf16ps(2, 5, 6);
            _tile_loadd(7, x + parts->group_bytes, 64);
            _tile_dpbf16ps(1, 4, 7);
            _tile_dpbf16ps(3, 5, 7);
        }
    }
    SUM_END(0, token, row, sums);
    SUM_END(1, token + TILE, row, sums);
    SUM_END(2, token, row + TILE, sums);
    SUM_END(3, token + TILE, row + TILE, sums);
}

static void products(const struct parts *parts)
{
    const struct gemm_part *part = parts->part;
    const uint32_t n_tokens = part->token_end - part->token;
    uint32_t row = parts->row;
    for (; n_tokens <= parts->columns && row + (QUAD - 1) * TILE < parts->row_end;
         row += QUAD * TILE)
        quad(parts, parts->memory, part->token, row);
    while (row < parts->row_end) {
        bool is_two = row + TILE < parts->row_end && parts->columns == TILE;
        const char *group = parts->memory;
        uint32_t token = part->token;
        for (; is_two && token + TILE < part->token_end; token += 2 * TILE) {
            square(parts, group, token, row);
            group += 2 * parts->group_bytes;
        }
        for (; token < part->token_end; token += parts->columns) {
            single(parts, group, token, row);
            if (is_two)
                single(parts, group, token, row + TILE);
            group += parts->group_bytes;
        }
        row += is_two ? 2 * TILE : TILE;
    }
}

/* The steps of a block. All blocks of n_steps are about equal. */
static uint32_t block_steps(uint32_t n_steps, size_t step_bytes)
{
    uint32_t most = (uint32_t)(MEMORY_BYTES / step_bytes);
    assert(most > 0 && "a step of all tokens of a task fits");
    uint32_t n_blocks = (n_steps + most - 1) / most;
    return (n_steps + n_blocks - 1) / n_blocks;
}

static void run(const struct gemm_part *part)
{
    _Alignas(64) char memory[MEMORY_BYTES];
    _Alignas(64) float kept[KEPT_ROWS * TOKENS];
    const uint32_t n_tokens = part->token_end - part->token, n_steps = steps_of(part->gemm);
    struct parts parts = {.part = part, .memory = memory, .kept = kept, .row_end = part->row};
    parts.columns = n_tokens <= FEW ? n_tokens : TILE;
    parts.tile_bytes = (size_t)TILE * parts.columns * 2 * sizeof(uint16_t);
    const uint32_t n_groups = (n_tokens + parts.columns - 1) / parts.columns;
    const uint32_t n = block_steps(n_steps, n_groups * PARTS * parts.tile_bytes);
    const uint32_t n_rows = n < n_steps ? KEPT_ROWS : part->row_end - part->row;
    parts.group_bytes = n * PARTS * parts.tile_bytes;
    assert(n_tokens <= TOKENS && n_groups * parts.group_bytes <= MEMORY_BYTES);
    amx_start(2 * STEP, (uint8_t)parts.columns);
    while (parts.row_end < part->row_end) {
        parts.row = parts.row_end;
        parts.row_end = part->row_end - parts.row < n_rows ? part->row_end : parts.row + n_rows;
        for (parts.step = 0; parts.step < n_steps; parts.step += n) {
            parts.step_end = n_steps - parts.step < n ? n_steps : parts.step + n;
            pack(&parts);
            amx_settle(kept);
            products(&parts);
        }
    }
    amx_finish();
}

struct gemm_path gemm_amx_bf16_path(void)
{
    return (struct gemm_path){
        .token_block = TOKENS, .row_step = QUAD * TILE, .rows_min = ROWS_MIN, .run = run};
}

#else
typedef int gemm_amx_bf16_has_nothing_here;
#endif
