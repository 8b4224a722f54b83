#include "kernels/cpu/products/gemm_lanes.h"

#if defined __AVX2__ && !defined __AVX512F__

#include "kernels/cpu/products/lanes_panel.h"
#include "kernels/cpu/products/lanes_tile.h"
#include "kernels/cpu/products/weights_ahead.h"

#include <assert.h>

enum {
    GROUP = 4,           /* tiles that go through all lanes while their sums are in the L1 cache */
    BF16_TOKENS_MIN = 7, /* fewer do not pay for transposing */
    TOKENS_MIN = 10,
    TILE_FLOATS = LANES_MR * LANES,
    PANEL_FLOATS = LANES * ((uint32_t)GEMM_K_BLOCK + GEMM_LANE_PAD),
};

struct scratch {
    _Alignas(64) float w[PANEL_FLOATS];
    _Alignas(64) float sums[(GEMM_TOKEN_BLOCK / LANES_MR + GROUP - 1) / GROUP][LANES]
                           [GROUP * TILE_FLOATS];
};

/* A K block of a panel and a token block. */
struct block {
    const struct gemm_part *part;
    struct lanes_tokens tokens;
    struct weights_ahead ahead;
    uint32_t row;
    bool is_first, is_last;
};

bool gemm_lanes_suit(const struct gemm *gemm)
{
    const uint32_t n_min = gemm->w_dtype == DTYPE_BF16 ? BF16_TOKENS_MIN : TOKENS_MIN;
    return gemm->n_tokens >= n_min && gemm->n_out >= LANES;
}

size_t gemm_lanes_bytes(uint32_t n_tokens, uint32_t n_in)
{
    const size_t n_j = lanes_divide_up(n_in, LANES);
    const size_t n_k_blocks = lanes_divide_up(n_in, GEMM_K_BLOCK);
    const size_t n_token_blocks = lanes_divide_up(n_tokens, GEMM_TOKEN_BLOCK);
    return LANES * sizeof(float) * (n_tokens * n_j + GEMM_LANE_PAD * n_k_blocks * n_token_blocks);
}

static uint32_t n_pieces(const struct gemm *gemm)
{
    const struct lanes_shape shape = lanes_shape_of(gemm->n_tokens, gemm->n_in);
    const uint32_t last = gemm->n_tokens % shape.token_block;
    return gemm->n_tokens / shape.token_block * (shape.token_block / LANES_MR) +
           lanes_divide_up(last, LANES_MR);
}

/* index is that of a tile: all token blocks but the last have the same number of them. */
static void prepare(const struct gemm *gemm, uint32_t index, void *tokens_out)
{
    const struct lanes_shape shape = lanes_shape_of(gemm->n_tokens, gemm->n_in);
    const uint32_t n_tiles = shape.token_block / LANES_MR;
    struct gemm_part block = {.gemm = gemm, .token = index / n_tiles * shape.token_block};
    block.token_end = gemm->n_tokens - block.token < shape.token_block
                          ? gemm->n_tokens
                          : block.token + shape.token_block;
    lanes_pack_tile(&shape, &block, index % n_tiles, tokens_out);
}

#define TILE(mr)                                                                                   \
    case mr:                                                                                       \
        lane_tile_run(mr, ONE_F32, mr * sizeof(float), sizeof(float), tile);                       \
        break;

static __attribute__((noinline)) void run_tile(uint32_t mr, const struct lane_tile *tile)
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

/* y of a tile, whose lanes are all added. */
static void store_tile(const struct block *block, uint32_t token, uint32_t mr, const float *sums)
{
    const struct gemm *gemm = block->part->gemm;
    const uint32_t n = gemm->n_out - block->row < LANES ? gemm->n_out - block->row : LANES;
    for (uint32_t m = 0; m < mr; m++)
        gemm_store(gemm, block->part->token + token + m, block->row, n, sums + (size_t)m * LANES);
}

/* Lane number `number` of a tile. */
static void run_lane(struct block *block, uint32_t number, uint32_t t, float *sums,
                     const struct scratch *scratch)
{
    const struct lanes_tokens *tokens = &block->tokens;
    const uint32_t lane = LANE_ORDER[number];
    const uint32_t first = lanes_tile_first(tokens, t), mr = lanes_tile_size(tokens, t);
    const struct lane_tile tile = {.one = (const char *)(tokens->data + lane * tokens->lane_stride +
                                                         (size_t)first * tokens->n_j),
                                   .side = scratch->w +
                                           lane * ((size_t)tokens->n_j * LANES + GEMM_LANE_PAD),
                                   .sums = sums,
                                   .sums_slot = GROUP * TILE_FLOATS,
                                   .n_j = tokens->n_j,
                                   .number = number,
                                   .is_first = block->is_first,
                                   .is_last = block->is_last};
    ask_ahead(&block->ahead);
    run_tile(mr, &tile);
    if (block->is_last && number == LANES - 1)
        store_tile(block, first, mr, lane_total(&tile));
}

/* The weights that come next: the next K block of these rows, or the first one of the rows behind them. */
static struct weights_ahead look_ahead(const struct block *block, const struct lanes_shape *shape,
                                       uint32_t j)
{
    const struct gemm *gemm = block->part->gemm;
    const uint32_t row = block->is_last ? block->row + LANES : block->row;
    const uint32_t k = block->is_last ? 0 : (j + shape->j_step) * LANES;
    if (row >= gemm->n_out)
        return (struct weights_ahead){0};
    return weights_ahead_of(gemm, row, LANES, k, shape->j_step * LANES,
                            LANES * block->tokens.n_tiles);
}

static void run_block(const struct lanes_shape *shape, struct block *block, uint32_t j,
                      struct scratch *scratch)
{
    const struct gemm_part *part = block->part;
    const uint32_t k = j * LANES;
    const uint32_t left = shape->n_in - k, len = shape->j_step * LANES;
    block->tokens = lanes_tokens_of(shape, part->tokens, part->token, part->token_end - part->token,
                                    j);
    block->is_first = j == 0;
    block->is_last = j + shape->j_step >= shape->n_j;
    block->ahead = look_ahead(block, shape, j);
    const size_t w_lane = (size_t)block->tokens.n_j * LANES + GEMM_LANE_PAD;
    panel_transpose(part->gemm, block->row, k, left < len ? left : len, scratch->w, w_lane);
    for (uint32_t t = 0; t < block->tokens.n_tiles; t += GROUP)
        for (uint32_t number = 0; number < LANES; number++)
            for (uint32_t i = 0; i < GROUP && t + i < block->tokens.n_tiles; i++)
                run_lane(block, number, t + i, scratch->sums[t / GROUP][0] + i * TILE_FLOATS,
                         scratch);
}

static void run(const struct gemm_part *part)
{
    struct scratch scratch;
    const struct lanes_shape shape = lanes_shape_of(part->gemm->n_tokens, part->gemm->n_in);
    assert(part->token % shape.token_block == 0);
    assert(part->row % LANES == 0 && part->token_end - part->token <= GEMM_TOKEN_BLOCK);
    for (uint32_t row = part->row; row < part->row_end; row += LANES) {
        struct block block = {.part = part, .row = row};
        for (uint32_t j = 0; j < shape.n_j; j += shape.j_step)
            run_block(&shape, &block, j, &scratch);
    }
}

struct gemm_path gemm_lanes_path(const struct gemm *gemm)
{
    const struct lanes_shape shape = lanes_shape_of(gemm->n_tokens, gemm->n_in);
    return (struct gemm_path){.token_block = shape.token_block,
                              .row_step = LANES,
                              .rows_min = LANES,
                              .run = run,
                              .prepare = prepare,
                              .n_pieces = n_pieces(gemm),
                              .tokens_bytes = gemm_lanes_bytes(gemm->n_tokens, gemm->n_in)};
}

#else

bool gemm_lanes_suit(const struct gemm *gemm)
{
    (void)gemm;
    return false;
}

size_t gemm_lanes_bytes(uint32_t n_tokens, uint32_t n_in)
{
    (void)n_tokens, (void)n_in;
    return 0;
}

struct gemm_path gemm_lanes_path(const struct gemm *gemm)
{
    return gemm_f32_path(gemm);
}

#endif
