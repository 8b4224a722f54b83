#include "kernels/cpu/products/gemm_batch.h"

#if defined __AVX2__ && !defined __AVX512F__

#include "kernels/cpu/products/lanes_panel.h"
#include "kernels/cpu/products/lanes_tile.h"
#include "kernels/cpu/products/weights_ahead.h"

#include <assert.h>

enum {
    ROWS = 6,         /* of a tile: with 16 tokens 12 registers of sums */
    K_BLOCK = 768,    /* elements; those of a tile are 18 KiB of the L1 cache */
    SAME_SETS = 4096, /* rows so far apart share sets of the L1 cache: they are copied */
    SIDE = LANES,     /* tokens side by side */
    GROUPS_MAX = 2,   /* of SIDE tokens, in a task */
    PANEL = 48,       /* rows whose outputs are stored together */
    ROW_STEP = 24,
    TOKENS_MAX = GROUPS_MAX * SIDE,
    TILE_FLOATS = ROWS * SIDE,
    LANE_PAD = 16, /* floats after a lane: lanes do not share sets of a cache */
};

struct batch_shape {
    uint32_t n_in, n_j, j_step, n_k_blocks;
    size_t group_floats; /* of SIDE tokens */
};

struct scratch {
    _Alignas(64) float w[ROWS * K_BLOCK];
    _Alignas(64) float sums[GROUPS_MAX][LANES][TILE_FLOATS];
    _Alignas(64) float out[GROUPS_MAX][PANEL][SIDE];
};

static struct batch_shape shape_of(uint32_t n_in)
{
    struct batch_shape shape = {.n_in = n_in, .n_j = (n_in + LANES - 1) / LANES};
    const uint32_t n_blocks = (n_in + K_BLOCK - 1) / K_BLOCK;
    shape.j_step = (shape.n_j + n_blocks - 1) / n_blocks;
    shape.n_k_blocks = (shape.n_j + shape.j_step - 1) / shape.j_step;
    shape.group_floats = (size_t)LANES * (SIDE * shape.n_j + LANE_PAD * shape.n_k_blocks);
    return shape;
}

/* The elements of a lane in the K block at j. */
static uint32_t block_j(const struct batch_shape *shape, uint32_t j)
{
    return shape->n_j - j < shape->j_step ? shape->n_j - j : shape->j_step;
}

static size_t block_floats(const struct batch_shape *shape, uint32_t j)
{
    return (size_t)LANES * (SIDE * j + LANE_PAD * (j / shape->j_step));
}

static uint32_t n_groups_of(uint32_t n_tokens)
{
    return (n_tokens + SIDE - 1) / SIDE;
}

bool gemm_batch_suit(const struct gemm *gemm)
{
    /* Tokens that are missing cost as much as others; gemm_lanes has no such loss. */
    const uint32_t missing = n_groups_of(gemm->n_tokens) * SIDE - gemm->n_tokens;
    return gemm->n_tokens <= TOKENS_MAX && missing <= (gemm->n_tokens <= SIDE ? 2 : 1) &&
           gemm->n_out >= LANES && gemm->x_stride <= UINT32_MAX;
}

size_t gemm_batch_bytes(uint32_t n_tokens, uint32_t n_in)
{
    const struct batch_shape shape = shape_of(n_in);
    return n_groups_of(n_tokens < TOKENS_MAX ? n_tokens : TOKENS_MAX) * shape.group_floats *
           sizeof(float);
}

/* A K block of SIDE tokens. They are transposed as rows of weights are. */
static void prepare(const struct gemm *gemm, uint32_t index, void *tokens_out)
{
    const struct batch_shape shape = shape_of(gemm->n_in);
    const uint32_t group = index / shape.n_k_blocks;
    const uint32_t j = index % shape.n_k_blocks * shape.j_step, k = j * LANES;
    const uint32_t n_j = block_j(&shape, j), left = gemm->n_in - k;
    const struct gemm tokens = {.w = gemm->x,
                                .w_dtype = DTYPE_F32,
                                .n_in = (uint32_t)gemm->x_stride,
                                .n_out = gemm->n_tokens};
    panel_transpose(&tokens, group * SIDE, k, left < n_j * LANES ? left : n_j * LANES,
                    (float *)tokens_out + group * shape.group_floats + block_floats(&shape, j),
                    (size_t)n_j * SIDE + LANE_PAD);
}

/* A K block of a tile of rows, where a lane takes every sixteenth of the floats at w. */
struct block {
    const struct batch_shape *shape;
    const struct gemm_part *part;
    struct weights_ahead ahead;
    const char *w;
    size_t w_stride;
    bool is_bf16;
    uint32_t row, n_rows, j;
};

#define TILE(mr)                                                                                   \
    case mr:                                                                                       \
        lane_tile_run(mr, kind, kind == ONE_F32 ? LANES * 4 : LANES * 2, tile->one_stride, tile);  \
        break;

INLINE void run_kind(const enum lane_one kind, uint32_t mr, const struct lane_tile *tile)
{
    switch (mr) {
        TILE(1)
        TILE(2)
        TILE(3)
        TILE(4)
        TILE(5)
        TILE(6)
    }
}

static __attribute__((noinline)) void run_floats(uint32_t mr, const struct lane_tile *tile)
{
    run_kind(ONE_F32, mr, tile);
}

static __attribute__((noinline)) void run_low(uint32_t mr, const struct lane_tile *tile)
{
    run_kind(ONE_BF16_LOW, mr, tile);
}

static __attribute__((noinline)) void run_high(uint32_t mr, const struct lane_tile *tile)
{
    run_kind(ONE_BF16_HIGH, mr, tile);
}

static struct weights_ahead look_ahead(const struct block *block, uint32_t n_groups)
{
    const struct gemm *gemm = block->part->gemm;
    const struct batch_shape *shape = block->shape;
    const bool is_last = block->j + shape->j_step >= shape->n_j;
    const uint32_t row = is_last ? block->row + block->n_rows : block->row;
    const uint32_t k = is_last ? 0 : (block->j + shape->j_step) * LANES;
    if (row >= gemm->n_out)
        return (struct weights_ahead){0};
    return weights_ahead_of(gemm, row, block->n_rows, k, shape->j_step * LANES, LANES * n_groups);
}

/* Finds the weights of a block, or widens them: zeros behind the end of a row. */
static void block_weights(struct block *block, struct scratch *scratch)
{
    const struct gemm *gemm = block->part->gemm;
    const uint32_t k = block->j * LANES, left = gemm->n_in - k;
    const uint32_t len = block_j(block->shape, block->j) * LANES;
    const size_t bytes = dtype_array_bytes(gemm->w_dtype, gemm->n_in);
    block->is_bf16 = gemm->w_dtype == DTYPE_BF16 && left >= len && bytes % SAME_SETS != 0;
    if (block->is_bf16) {
        block->w_stride = bytes;
        block->w = (const char *)gemm->w + block->row * bytes + k * sizeof(uint16_t);
        return;
    }
    block->w = (const char *)scratch->w;
    block->w_stride = len * sizeof(float);
    for (uint32_t r = 0; r < block->n_rows; r++) {
        float *to = scratch->w + (size_t)r * len;
        widen(gemm, block->row + r, k, left < len ? left : len, to);
        if (left < len)
            memset(to + left, 0, (len - left) * sizeof *to);
    }
}

static void run_block(struct block *block, struct scratch *scratch, uint32_t out_row)
{
    const struct batch_shape *shape = block->shape;
    const struct gemm_part *part = block->part;
    const uint32_t n_groups = n_groups_of(part->token_end - part->token);
    const uint32_t n_j = block_j(shape, block->j);
    const bool is_last = block->j + shape->j_step >= shape->n_j;
    block_weights(block, scratch);
    block->ahead = look_ahead(block, n_groups);
    for (uint32_t g = 0; g < n_groups; g++) {
        const float *x = (const float *)part->tokens +
                         (part->token / SIDE + g) * shape->group_floats +
                         block_floats(shape, block->j);
        for (uint32_t number = 0; number < LANES; number++) {
            const uint32_t lane = LANE_ORDER[number];
            const ptrdiff_t next = number + 1 < LANES ? (ptrdiff_t)LANE_ORDER[number + 1] - lane
                                                      : -(ptrdiff_t)lane;
            const struct lane_tile tile = {
                .ahead = next * (ptrdiff_t)((n_j * SIDE + LANE_PAD) * sizeof(float)),
                .one = block->w + (block->is_bf16 ? lane / 2 * 4 : lane * sizeof(float)),
                .one_stride = block->w_stride,
                .side = x + lane * ((size_t)n_j * SIDE + LANE_PAD),
                .sums = scratch->sums[g][0],
                .sums_slot = TILE_FLOATS,
                .n_j = n_j,
                .number = number,
                .is_first = block->j == 0,
                .is_last = is_last};
            ask_ahead(&block->ahead);
            if (!block->is_bf16)
                run_floats(block->n_rows, &tile);
            else if (lane % 2 == 0)
                run_low(block->n_rows, &tile);
            else
                run_high(block->n_rows, &tile);
            if (is_last && number == LANES - 1)
                memcpy(scratch->out[g][out_row], lane_total(&tile),
                       block->n_rows * SIDE * sizeof(float));
        }
    }
}

/* y of up to PANEL rows, whose sums are in scratch->out. */
static void store_panel(const struct gemm_part *part, uint32_t row, uint32_t n_rows,
                        const struct scratch *scratch)
{
    _Alignas(64) float sums[SIDE * LANES];
    for (uint32_t token = part->token; token < part->token_end; token += SIDE)
        for (uint32_t r = 0; r < n_rows; r += LANES) {
            const uint32_t n = n_rows - r < LANES ? n_rows - r : LANES;
            transpose_floats((const char *)scratch->out[(token - part->token) / SIDE][r],
                             SIDE * sizeof(float), sums, LANES);
            for (uint32_t t = 0; t < SIDE && token + t < part->token_end; t++)
                gemm_store(part->gemm, token + t, row + r, n, sums + t * LANES);
        }
}

static void run(const struct gemm_part *part)
{
    struct scratch scratch;
    const struct batch_shape shape = shape_of(part->gemm->n_in);
    assert(part->token % SIDE == 0 && part->token_end - part->token <= GROUPS_MAX * SIDE);
    memset(scratch.out, 0, sizeof scratch.out);
    for (uint32_t panel = part->row; panel < part->row_end; panel += PANEL) {
        const uint32_t n_rows = part->row_end - panel < PANEL ? part->row_end - panel : PANEL;
        const uint32_t n_tiles = (n_rows + ROWS - 1) / ROWS;
        uint32_t first = 0;
        for (uint32_t t = 0; t < n_tiles; t++) {
            struct block block = {.shape = &shape, .part = part, .row = panel + first};
            block.n_rows = n_rows / n_tiles + (t < n_rows % n_tiles);
            for (; block.j < shape.n_j; block.j += shape.j_step)
                run_block(&block, &scratch, first);
            first += block.n_rows;
        }
        store_panel(part, panel, n_rows, &scratch);
    }
}

struct gemm_path gemm_batch_path(const struct gemm *gemm)
{
    const uint32_t n_pieces = n_groups_of(gemm->n_tokens) * shape_of(gemm->n_in).n_k_blocks;
    return (struct gemm_path){.token_block = TOKENS_MAX,
                              .row_step = ROW_STEP,
                              .rows_min = ROW_STEP,
                              .run = run,
                              .prepare = prepare,
                              .n_pieces = n_pieces,
                              .tokens_bytes = gemm_batch_bytes(gemm->n_tokens, gemm->n_in)};
}

#else

bool gemm_batch_suit(const struct gemm *gemm)
{
    (void)gemm;
    return false;
}

size_t gemm_batch_bytes(uint32_t n_tokens, uint32_t n_in)
{
    (void)n_tokens, (void)n_in;
    return 0;
}

struct gemm_path gemm_batch_path(const struct gemm *gemm)
{
    return gemm_f32_path(gemm);
}

#endif
