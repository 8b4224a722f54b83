#include "kernels/cpu/parallel.h"
#include "kernels/cpu/products/gemm_amx_int8.h"
#include "kernels/cpu/products/gemm_pairs.h"
#include "kernels/cpu/products/gemm_panels.h"
#include "kernels/cpu/vector/int8.h"

#include <assert.h>
#include <math.h>

#if defined(__AVX512F__)
/* tokens x panels: 24 registers of sums of 32 */
enum { ROW_MR = 12, GROUP_MR = 6, NR = 2, STRIPS = 2 };
#elif defined(__AVX2__)
enum { ROW_MR = 4, GROUP_MR = 2, NR = 1, STRIPS = 2 };
#elif defined SET_NEON
enum { ROW_MR = 4, GROUP_MR = 2, NR = 1, STRIPS = 1 }; /* 16 registers of sums of 32 */
#else
enum { ROW_MR = 2, GROUP_MR = 2, NR = 1, STRIPS = 1 };
#endif
enum {
    MATRIX_TOKENS_MIN = 8, /* fewer tokens use less than half of the matrix unit */
    ROWS_MIN = 64, /* of a task that rounds its tokens, which costs about as much as four rows */
    LINE = 64,
    PIECE_TOKENS = 4, /* which one task rounds for the call */
    SUMS_MAX = 24,
    NR_MAX = 2, /* of panels that a tile has */
};

/* ---- packing ---- */

size_t cpu_gemm_packed_bytes(const struct gemm *weights)
{
    assert(weights->w_dtype == DTYPE_INT8 && weights->w_scale_rows == 1);
    assert(weights->w_scale_columns == weights->n_in || weights->w_scale_columns == GROUP_LEN);
    assert(weights->n_in > 0 && weights->n_in <= N_IN_MAX);
    size_t n_panels = (weights->n_out + PANEL_ROWS - 1) / PANEL_ROWS;
    return n_panels * panels_of(weights).panel_bytes;
}

static void pack_row(const struct gemm *weights, const struct panels *panels, uint32_t row,
                     uint8_t *panel)
{
    const int8_t *w = (const int8_t *)weights->w + (size_t)row * weights->n_in;
    const char *scales = (const char *)weights->w_scales +
                         (size_t)row * panels->n_groups * sizeof(float);
    uint32_t lane = row % PANEL_ROWS;
    for (uint32_t g = 0; g < panels->n_groups; g++) {
        uint8_t *group = panel + g * panels->group_bytes;
        memcpy(group + lane * sizeof(float), scales + g * sizeof(float), sizeof(float));
        uint8_t *bytes = group + PANEL_SCALE_BYTES + 4 * (size_t)lane;
        uint32_t first = g * panels->group_len;
        const uint32_t left = weights->n_in - first;
        const uint32_t n = left < panels->group_len ? left : panels->group_len;
        for (uint32_t k = 0; k + 4 <= n; k += 4) {
            uint32_t four;
            memcpy(&four, w + first + k, sizeof four);
            four ^= 0x80808080u; /* 128 more */
            memcpy(bytes + (size_t)k * PANEL_ROWS, &four, sizeof four);
        }
        for (uint32_t k = n / 4 * 4; k < n; k++)
            bytes[k / 4 * (4 * PANEL_ROWS) + k % 4] = (uint8_t)(w[first + k] + 128);
    }
}

static void pack_nothing(const struct panels *panels, uint8_t *panel)
{
    for (uint32_t g = 0; g < panels->n_groups; g++) {
        uint8_t *group = panel + g * panels->group_bytes;
        memset(group, 0, PANEL_SCALE_BYTES);
        memset(group + PANEL_SCALE_BYTES, 128, panels->group_bytes - PANEL_SCALE_BYTES);
    }
}

struct packing {
    const struct gemm *weights;
    struct panels panels;
    uint8_t *packed;
};

static void pack_panel(void *arg, uint32_t index)
{
    const struct packing *packing = arg;
    const struct panels *panels = &packing->panels;
    uint8_t *panel = packing->packed + index * panels->panel_bytes;
    pack_nothing(panels, panel);
    for (uint32_t row = index * PANEL_ROWS;
         row < (index + 1) * PANEL_ROWS && row < packing->weights->n_out; row++)
        pack_row(packing->weights, panels, row, panel);
}

void cpu_gemm_pack(struct thread_pool *pool, const struct gemm *weights, void *packed_out)
{
    struct packing packing = {weights, panels_of(weights), packed_out};
    parallel_run(pool, (uint64_t)weights->n_out * weights->n_in,
                 (weights->n_out + PANEL_ROWS - 1) / PANEL_ROWS, pack_panel, &packing);
}

/* ---- tokens ---- */

/* Rounds n elements, and adds zeros up to len. A NaN or an infinity makes the scale NaN. */
static void round_group(const float *x, uint32_t n, uint32_t len, count *counts, float *scale_out,
                        int32_t *correction_out)
{
    vec most = vec_zero(), poison = vec_zero();
    for (uint32_t k = 0; k < n; k += LANES) {
        vec v = n - k < LANES ? vec_load_some(DTYPE_F32, x + k, n - k) : vec_load(x + k);
        most = vec_max(most, vec_max(v, vec_sub(vec_zero(), v)));
        poison = vec_fma(v, vec_zero(), poison);
    }
    float largest = vec_largest(most);
    vec inverse = vec_set(largest > 0 ? 127 / largest : 0);
    vec sums = vec_zero(); /* exact: under 2^24 with N_IN_MAX counts */
    for (uint32_t k = 0; k < len; k += LANES) {
        vec v = vec_zero();
        if (k < n)
            v = n - k < LANES ? vec_load_some(DTYPE_F32, x + k, n - k) : vec_load(x + k);
        /* In this order NaN becomes a number: the scale shows the NaN. */
        v = vec_min(vec_set(127), vec_max(vec_round(vec_mul(v, inverse)), vec_set(-127)));
        counts_store(counts + k, v);
        sums = vec_add(sums, v);
    }
    *scale_out = largest / 127 + vec_sum(poison);
    *correction_out = -128 * (int32_t)vec_sum(sums);
}

/* Where n rounded tokens lie in memory, of which first is the first one. */
static struct rounded rounded_in(void *memory, const struct panels *panels, size_t n,
                                 uint32_t first)
{
    struct rounded x = {.counts = memory, .stride = panels->stride};
    x.scales = (float *)(void *)((char *)memory + n * x.stride * sizeof(count));
    x.corrections = (int32_t *)(void *)(x.scales + n * panels->n_groups);
    x.counts += first * x.stride;
    x.scales += (size_t)first * panels->n_groups;
    x.corrections += (size_t)first * panels->n_groups;
    return x;
}

/* The matrix unit reads whole tiles of 16 tokens. */
static uint32_t whole_tiles(uint32_t n_tokens)
{
    return (n_tokens + 15) / 16 * 16;
}

static size_t rounded_bytes(uint32_t n_tokens, size_t token_bytes)
{
    return ((size_t)whole_tiles(n_tokens) * token_bytes + LINE - 1) / LINE * LINE;
}

/* Of rows or groups, whichever takes more. */
size_t gemm_int8_bytes(uint32_t n_tokens, uint32_t n_in)
{
    const size_t row = ((size_t)n_in + ROW_LEN_STEP - 1) / ROW_LEN_STEP * ROW_LEN_STEP;
    const size_t n_groups = ((size_t)n_in + GROUP_LEN - 1) / GROUP_LEN;
    return rounded_bytes(n_tokens, (row + COUNTS_PAD) * sizeof(count) +
                                       n_groups * (sizeof(float) + sizeof(int32_t)));
}

#ifdef HAS_PAIRS
/* Whether gemm_pairs computes a product. All its parts do the same, since its corrections are others. */
static bool has_pairs(const struct gemm *gemm)
{
    return gemm->n_tokens >= PAIRS_TOKENS_MIN;
}
#endif

static void round_tokens(const struct gemm *gemm, uint32_t token, uint32_t n_tokens,
                         const struct panels *panels, const struct rounded *rounded)
{
    for (uint32_t t = 0; t < n_tokens; t++) {
        const float *x = (const float *)gemm->x + (token + t) * gemm->x_stride;
        for (uint32_t g = 0; g < panels->n_groups; g++) {
            uint32_t first = g * panels->group_len;
            uint32_t n = gemm->n_in - first < panels->group_len ? gemm->n_in - first
                                                                : panels->group_len;
            size_t index = (size_t)t * panels->n_groups + g;
            round_group(x + first, n, panels->group_len,
                        rounded->counts + t * rounded->stride + first, &rounded->scales[index],
                        &rounded->corrections[index]);
        }
    }
#ifdef HAS_PAIRS
    if (has_pairs(gemm))
        gemm_pairs_correct(panels, rounded, n_tokens);
#endif
}

/* Rounds a piece of the tokens of the call. */
static void prepare(const struct gemm *gemm, uint32_t piece, void *tokens_out)
{
    const struct panels panels = panels_of(gemm);
    const uint32_t token = piece * PIECE_TOKENS, left = gemm->n_tokens - token;
    const struct rounded x = rounded_in(tokens_out, &panels, whole_tiles(gemm->n_tokens), token);
    round_tokens(gemm, token, left < PIECE_TOKENS ? left : PIECE_TOKENS, &panels, &x);
}

/* ---- products ---- */

/* The inputs of a tile of tokens and panels. */
struct tile {
    const struct rounded *x;
    const uint8_t *w; /* its first panel */
    uint32_t token, row;
    uint32_t panel_rows; /* from a panel to the next one: those of a panel, or of a strip */
    size_t panel_bytes;  /* the same in w */
};

static struct tile tile_of(const struct panels *panels, const struct rounded *x,
                           uint32_t panel_rows)
{
    return (struct tile){.x = x,
                         .panel_rows = panel_rows,
                         .panel_bytes = panel_rows / PANEL_ROWS * panels->panel_bytes};
}

INLINE void group_dot(const uint32_t mr, const uint32_t nr, const count *x, size_t x_stride,
                      const uint8_t *w, size_t panel_bytes, uint32_t len, vec_int *acc)
{
    for (uint32_t k = 0; k < len; k += 4) {
        weights64 b[NR_MAX];
        UNROLL
        for (uint32_t n = 0; n < nr; n++)
            b[n] = weights_load(w + n * panel_bytes + (size_t)k * PANEL_ROWS);
        if (nr == NR)
            weights_ask(w + (size_t)k * PANEL_ROWS);
        UNROLL
        for (uint32_t m = 0; m < mr; m++) {
            factors a = factors_load(x + m * x_stride + k);
            UNROLL
            for (uint32_t n = 0; n < nr; n++)
                acc[m * nr + n] = vec_int_dot(acc[m * nr + n], b[n], a);
        }
    }
}

/* y of a group's sums: += sums * (scale of w * scale of x). index: of the group of the first token. */
INLINE void group_add(const uint32_t mr, const uint32_t nr, const struct rounded *x, size_t index,
                      uint32_t n_groups, const uint8_t *group, size_t panel_bytes,
                      const vec_int *acc, vec *y)
{
    UNROLL
    for (uint32_t i = 0; i < mr * nr; i++) {
        vec w_scale = vec_load((const float *)(const void *)(group + i % nr * panel_bytes));
        vec scale = vec_mul(w_scale, vec_set(x->scales[index + i / nr * n_groups]));
        y[i] = vec_fma(vec_int_to_vec(acc[i]), scale, y[i]);
    }
}

/* Rows that are groups of 32. Computes mr tokens from part->token + token on, and nr panels from row on. */
INLINE void groups_tile(const uint32_t mr, const uint32_t nr, const struct gemm_part *part,
                        const struct panels *panels, const struct tile *tile)
{
    const struct rounded *x = tile->x;
    vec y[SUMS_MAX];
    UNROLL
    for (uint32_t i = 0; i < mr * nr; i++)
        y[i] = vec_zero();
    for (uint32_t g = 0; g < panels->n_groups; g++) {
        const uint8_t *group = tile->w + g * panels->group_bytes;
        size_t index = (size_t)tile->token * panels->n_groups + g;
        vec_int acc[SUMS_MAX];
        UNROLL
        for (uint32_t i = 0; i < mr * nr; i++)
            acc[i] = vec_int_begin(x->corrections[index + i / nr * panels->n_groups]);
        group_dot(mr, nr, x->counts + tile->token * x->stride + (size_t)g * panels->group_len,
                  x->stride, group + PANEL_SCALE_BYTES, tile->panel_bytes, GROUP_LEN, acc);
        group_add(mr, nr, x, index, panels->n_groups, group, tile->panel_bytes, acc, y);
    }
    gemm_panels_store(part->gemm, part->token + tile->token, mr, tile->row, nr, tile->panel_rows,
                      y);
}

/* Rows that are one group. Three rows of x have a pointer in common, so that all pointers stay in registers. */
INLINE void row_dot(const uint32_t mr, const uint32_t nr, const count *x, size_t stride,
                    const uint8_t *w, size_t panel_bytes, uint32_t len, vec_int *acc)
{
    const count *three[(ROW_MR > 4 ? ROW_MR + 2 : 6) / 3];
    UNROLL
    for (uint32_t i = 0; i < (mr + 2) / 3; i++)
        three[i] = x + 3 * i * stride;
    for (const uint8_t *end = w + (size_t)len * PANEL_ROWS; w != end; w += 4 * PANEL_ROWS) {
        weights64 b[NR_MAX];
        UNROLL
        for (uint32_t n = 0; n < nr; n++)
            b[n] = weights_load(w + n * panel_bytes);
        if (nr == NR)
            weights_ask(w);
        UNROLL
        for (uint32_t m = 0; m < mr; m++) {
            factors a = factors_load(three[m / 3] + m % 3 * stride);
            UNROLL
            for (uint32_t n = 0; n < nr; n++)
                acc[m * nr + n] = vec_int_dot(acc[m * nr + n], b[n], a);
        }
        UNROLL
        for (uint32_t i = 0; i < (mr + 2) / 3; i++)
            three[i] += 4;
    }
}

INLINE void rows_tile(const uint32_t mr, const uint32_t nr, const struct gemm_part *part,
                      const struct panels *panels, const struct tile *tile)
{
    const struct rounded *x = tile->x;
    vec_int acc[SUMS_MAX];
    vec y[SUMS_MAX];
    UNROLL
    for (uint32_t i = 0; i < mr * nr; i++)
        acc[i] = vec_int_begin(x->corrections[tile->token + i / nr]);
    row_dot(mr, nr, x->counts + tile->token * x->stride, x->stride, tile->w + PANEL_SCALE_BYTES,
            tile->panel_bytes, panels->group_len, acc);
    UNROLL
    for (uint32_t i = 0; i < mr * nr; i++)
        y[i] = vec_zero();
    group_add(mr, nr, x, tile->token, 1, tile->w, tile->panel_bytes, acc, y);
    gemm_panels_store(part->gemm, part->token + tile->token, mr, tile->row, nr, tile->panel_rows,
                      y);
}

/* Not inlined: among other tiles the compiler would store the sums in every step. */
#define ROWS_TILE(mr, nr)                                                                          \
    static __attribute__((noinline)) void rows_tile_##mr##_##nr(                                   \
        const struct gemm_part *part, const struct panels *panels, const struct tile *tile)        \
    {                                                                                              \
        rows_tile(mr, nr, part, panels, tile);                                                     \
    }
ROWS_TILE(1, 1)
ROWS_TILE(2, 1)
ROWS_TILE(4, 1)
#ifdef __AVX2__
ROWS_TILE(1, 2)
#endif
#ifdef __AVX512F__
ROWS_TILE(12, 1)
ROWS_TILE(2, 2)
ROWS_TILE(4, 2)
ROWS_TILE(12, 2)
#endif

INLINE void tile_run(const uint32_t mr, const uint32_t nr, const bool is_grouped,
                     const struct gemm_part *part, const struct panels *panels,
                     const struct tile *tile)
{
    if (is_grouped) {
        groups_tile(mr, nr, part, panels, tile);
        return;
    }
#ifdef __AVX2__
    if (mr == 1 && nr == 2) {
        rows_tile_1_2(part, panels, tile);
        return;
    }
#endif
#ifdef __AVX512F__
    if (nr == 2) {
        if (mr == 12)
            rows_tile_12_2(part, panels, tile);
        else if (mr == 4)
            rows_tile_4_2(part, panels, tile);
        else
            rows_tile_2_2(part, panels, tile);
        return;
    }
    if (mr == 12) {
        rows_tile_12_1(part, panels, tile);
        return;
    }
#endif
    if (mr == 4)
        rows_tile_4_1(part, panels, tile);
    else if (mr == 2)
        rows_tile_2_1(part, panels, tile);
    else
        rows_tile_1_1(part, panels, tile);
}

INLINE void panel_tokens(const uint32_t mr, const uint32_t nr, const bool is_grouped,
                         const struct gemm_part *part, const struct panels *panels,
                         struct tile *tile)
{
    uint32_t n = part->token_end - part->token;
    for (tile->token = 0; tile->token + mr <= n; tile->token += mr)
        tile_run(mr, nr, is_grouped, part, panels, tile);
    for (; mr > 4 && tile->token + 4 <= n; tile->token += 4)
        tile_run(4, nr, is_grouped, part, panels, tile);
    for (; mr > 2 && tile->token + 2 <= n; tile->token += 2)
        tile_run(2, nr, is_grouped, part, panels, tile);
    for (; tile->token < n; tile->token++)
        tile_run(1, nr, is_grouped, part, panels, tile);
}

INLINE void panels_run(const uint32_t mr, const bool is_grouped, const struct gemm_part *part,
                       const struct panels *panels, const struct rounded *x)
{
    const uint8_t *packed = part->gemm->w;
    struct tile tile = tile_of(panels, x, PANEL_ROWS);
    tile.row = part->row;
    for (; tile.row + NR * PANEL_ROWS <= part->row_end; tile.row += NR * PANEL_ROWS) {
        tile.w = packed + tile.row / PANEL_ROWS * panels->panel_bytes;
        panel_tokens(mr, NR, is_grouped, part, panels, &tile);
    }
    for (; tile.row < part->row_end; tile.row += PANEL_ROWS) {
        tile.w = packed + tile.row / PANEL_ROWS * panels->panel_bytes;
        panel_tokens(mr, 1, is_grouped, part, panels, &tile);
    }
}

/* One token, and a panel of each strip at a time. */
INLINE void strips_run(const bool is_grouped, const struct gemm_part *part,
                       const struct panels *panels, const struct rounded *x)
{
    const uint8_t *packed = part->gemm->w;
    struct tile tile = tile_of(panels, x, part->strip);
    for (tile.row = part->row; tile.row < part->row_end; tile.row += PANEL_ROWS) {
        tile.w = packed + tile.row / PANEL_ROWS * panels->panel_bytes;
        if (tile.row + (STRIPS - 1) * part->strip < part->gemm->n_out)
            tile_run(1, STRIPS, is_grouped, part, panels, &tile);
        else
            tile_run(1, 1, is_grouped, part, panels, &tile);
    }
}

static void run_rounded(const struct gemm_part *part, const struct panels *panels,
                        const struct rounded *x)
{
    assert(part->row % PANEL_ROWS == 0);
#ifdef HAS_AMX_INT8
    if (part->token_end - part->token >= MATRIX_TOKENS_MIN) {
        gemm_amx_int8(part, x);
        return;
    }
#endif
#ifdef HAS_PAIRS
    if (has_pairs(part->gemm)) {
        gemm_pairs(part, x);
        return;
    }
#endif
    if (part->strip > 0 && panels->n_groups > 1)
        strips_run(true, part, panels, x);
    else if (part->strip > 0)
        strips_run(false, part, panels, x);
    else if (panels->n_groups > 1)
        panels_run(GROUP_MR, true, part, panels, x);
    else
        panels_run(ROW_MR, false, part, panels, x);
}

static void run(const struct gemm_part *part)
{
    /* Without const: prepare() fills the same struct. Tasks only read. */
    void *tokens = (void *)(uintptr_t)part->tokens;
    const struct panels panels = panels_of(part->gemm);
    const struct rounded x = rounded_in(tokens, &panels, whole_tiles(part->gemm->n_tokens),
                                        part->token);
    run_rounded(part, &panels, &x);
}

/* Without a workspace each task rounds its tokens. */
static void run_alone(const struct gemm_part *part)
{
    _Alignas(64) char memory[TOKENS_BYTES_MAX];
    const struct panels panels = panels_of(part->gemm);
    const uint32_t n_tokens = part->token_end - part->token;
#ifdef HAS_AMX_INT8
    const size_t n_rounded = n_tokens >= MATRIX_TOKENS_MIN ? whole_tiles(n_tokens) : n_tokens;
#else
    const size_t n_rounded = n_tokens;
#endif
    const struct rounded x = rounded_in(memory, &panels, n_rounded, 0);
    assert(n_rounded * panels.token_bytes <= sizeof memory);
    memset(x.scales, 0, n_rounded * panels.n_groups * sizeof *x.scales);
    round_tokens(part->gemm, part->token, n_tokens, &panels, &x);
    run_rounded(part, &panels, &x);
}

/* The tokens of a task, of which at most room fit. */
static uint32_t task_tokens(uint32_t n_tokens, uint32_t room)
{
#ifdef HAS_PAIRS
    /* Blocks of about the same size, of whole tiles. */
    uint32_t tokens = room < PAIRS_TILE ? room : room / PAIRS_TILE * PAIRS_TILE;
    uint32_t n_blocks = (n_tokens + tokens - 1) / tokens;
    uint32_t even = ((n_tokens + n_blocks - 1) / n_blocks + PAIRS_TILE - 1) / PAIRS_TILE *
                    PAIRS_TILE;
    return even < tokens ? even : tokens;
#else
    (void)n_tokens;
    if (room >= 16)
        return room / 16 * 16;
    return room >= MATRIX_TOKENS_MIN ? MATRIX_TOKENS_MIN - 1 : room;
#endif
}

struct gemm_path gemm_int8_path(const struct gemm *gemm)
{
    const struct panels panels = panels_of(gemm);
    uint32_t room = (uint32_t)(TOKENS_BYTES_BEST / panels.token_bytes);
    uint32_t tokens = task_tokens(gemm->n_tokens, room < TOKENS_MAX ? room : TOKENS_MAX);
    const uint32_t n_strips = gemm->n_tokens == 1 && STRIPS > 1 ? STRIPS : 0;
    const uint32_t rows = n_strips > 0 ? PANEL_ROWS : NR * PANEL_ROWS;
    return (struct gemm_path){.token_block = tokens,
                              .row_step = rows,
                              .rows_min = rows,
                              .n_strips = n_strips,
                              .run = run,
                              .prepare = prepare,
                              .n_pieces = (gemm->n_tokens + PIECE_TOKENS - 1) / PIECE_TOKENS,
                              .tokens_bytes = rounded_bytes(gemm->n_tokens, panels.token_bytes)};
}

struct gemm_path gemm_int8_path_alone(const struct gemm *gemm)
{
    struct gemm_path path = gemm_int8_path(gemm);
    path.rows_min = ROWS_MIN;
    path.run = run_alone;
    path.prepare = NULL;
    return path;
}
