/*
 * lanes_tokens - the tokens of a product, rearranged for gemm_lanes: what a tile reads lies side by side, in the order of use.
 *
 *     [token block][K block][lane][tile of tokens][j][token of the tile]    float; zeros after n_in
 *
 * Tokens are cut into blocks (one task computes one of them), and a block into tiles of about equal size, at most LANES_MR.
 * A lane of a K block of a token block has GEMM_LANE_PAD floats more, so that lanes do not share sets of a cache.
 */
#pragma once

#include "kernels/cpu/products/gemm_path.h"
#include "kernels/cpu/vector/vec.h"

enum {
    LANES_MR = 6,           /* tokens of a tile, at most */
    GEMM_TOKEN_BLOCK = 192, /* tokens of a task, at most; a multiple of LANES_MR */
    GEMM_K_BLOCK = 2048,    /* elements that a task rearranges at a time, at most */
    GEMM_LANE_PAD = 16,     /* floats after a lane */
};

/* How a product is cut; n_j, j_step: elements of a lane, of a row and of a K block. */
struct lanes_shape {
    uint32_t n_in, n_j, j_step, n_k_blocks, token_block;
};

static inline uint32_t lanes_divide_up(uint32_t n, uint32_t by)
{
    return (n + by - 1) / by;
}

static inline struct lanes_shape lanes_shape_of(uint32_t n_tokens, uint32_t n_in)
{
    struct lanes_shape shape = {.n_in = n_in, .n_j = lanes_divide_up(n_in, LANES)};
    const uint32_t n_blocks = lanes_divide_up(n_tokens, GEMM_TOKEN_BLOCK);
    shape.j_step = lanes_divide_up(shape.n_j, lanes_divide_up(shape.n_j, GEMM_K_BLOCK / LANES));
    shape.n_k_blocks = lanes_divide_up(shape.n_j, shape.j_step);
    shape.token_block = lanes_divide_up(lanes_divide_up(n_tokens, n_blocks), LANES_MR) * LANES_MR;
    return shape;
}

/* The floats of n tokens in front of a token block. */
static inline size_t lanes_tokens_floats(const struct lanes_shape *shape, uint32_t n)
{
    return (size_t)LANES * ((size_t)n * shape->n_j + (size_t)GEMM_LANE_PAD * shape->n_k_blocks *
                                                         lanes_divide_up(n, shape->token_block));
}

/* A K block of a token block: n tokens in n_tiles tiles, the first n_more of which have one token more than size. */
struct lanes_tokens {
    const float *data;
    uint32_t n, n_tiles, size, n_more, n_j;
    size_t lane_stride;
};

static inline struct lanes_tokens lanes_tokens_of(const struct lanes_shape *shape,
                                                  const float *packed, uint32_t token, uint32_t n,
                                                  uint32_t j)
{
    struct lanes_tokens tokens = {.n = n, .n_tiles = lanes_divide_up(n, LANES_MR)};
    tokens.size = n / tokens.n_tiles;
    tokens.n_more = n % tokens.n_tiles;
    tokens.n_j = shape->n_j - j < shape->j_step ? shape->n_j - j : shape->j_step;
    tokens.lane_stride = (size_t)n * tokens.n_j + GEMM_LANE_PAD;
    tokens.data = packed + lanes_tokens_floats(shape, token) +
                  (size_t)LANES * ((size_t)n * j + (size_t)GEMM_LANE_PAD * (j / shape->j_step));
    return tokens;
}

/* The first token of a tile, and its tokens. */
INLINE uint32_t lanes_tile_first(const struct lanes_tokens *tokens, uint32_t tile)
{
    return tile * tokens->size + (tile < tokens->n_more ? tile : tokens->n_more);
}

INLINE uint32_t lanes_tile_size(const struct lanes_tokens *tokens, uint32_t tile)
{
    return tokens->size + (tile < tokens->n_more);
}

#ifdef __AVX2__
/* Sixteen elements of four tokens, stride floats apart. */
INLINE void lanes_pack_four(const float *x, size_t stride, float *out, size_t lane_stride)
{
    for (uint32_t lane = 0; lane < LANES; lane += 4) {
        __m128 row[4];
        UNROLL
        for (uint32_t i = 0; i < 4; i++)
            row[i] = _mm_loadu_ps(x + i * stride + lane);
        _MM_TRANSPOSE4_PS(row[0], row[1], row[2], row[3]);
        UNROLL
        for (uint32_t i = 0; i < 4; i++)
            _mm_storeu_ps(out + (lane + i) * lane_stride, row[i]);
    }
}
#endif

/* Rearranges elements first .. first + 15, of which n_in has n, of the mr tokens of a tile. */
static inline void lanes_pack_step(const float *x, size_t stride, uint32_t mr, uint32_t n,
                                   float *out, size_t lane_stride)
{
    uint32_t m = 0;
#ifdef __AVX2__
    for (; n == LANES && m + 4 <= mr; m += 4)
        lanes_pack_four(x + m * stride, stride, out + m, lane_stride);
#endif
    for (; m < mr; m++)
        for (uint32_t lane = 0; lane < LANES; lane++)
            out[lane * lane_stride + m] = lane < n ? x[m * stride + lane] : 0;
}

/* Rearranges a tile of tokens of a block, of which the K blocks begin at packed. */
static inline void lanes_pack_tile(const struct lanes_shape *shape, const struct gemm_part *block,
                                   uint32_t tile, float *packed)
{
    const uint32_t n = block->token_end - block->token;
    for (uint32_t j = 0; j < shape->n_j; j += shape->j_step) {
        const struct lanes_tokens tokens = lanes_tokens_of(shape, packed, block->token, n, j);
        const uint32_t first = lanes_tile_first(&tokens, tile);
        const uint32_t mr = lanes_tile_size(&tokens, tile);
        const size_t stride = block->gemm->x_stride;
        const float *x = (const float *)block->gemm->x + (block->token + first) * stride;
        float *out = packed + (tokens.data - packed) + (size_t)first * tokens.n_j;
        for (uint32_t i = 0; i < tokens.n_j; i++) {
            const uint32_t k = (j + i) * LANES;
            const uint32_t left = shape->n_in - k;
            lanes_pack_step(x + k, stride, mr, left < LANES ? left : LANES, out + (size_t)i * mr,
                            tokens.lane_stride);
        }
    }
}
