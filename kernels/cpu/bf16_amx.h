/*
 * bf16_amx - the product by the matrix unit: 16 rows by up to 64 columns in tiles 0 .. 3. Rows of a are
 * read up to a multiple of 16; what is there reaches nothing.
 */
#pragma once

#include "kernels/cpu/amx.h"
#include "kernels/cpu/bf16_product.h"

enum { BF16_TILE = 16, BF16_QUAD = 4 };

static void bf16_start(void)
{
    amx_start(64, BF16_TILE);
}

static void bf16_finish(void)
{
    amx_finish();
}

#define BF16_EACH_SUM(n, act)                                                                      \
    do {                                                                                           \
        act(0);                                                                                    \
        if ((n) > 1)                                                                               \
            act(1);                                                                                \
        if ((n) > 2)                                                                               \
            act(2);                                                                                \
        if ((n) > 3)                                                                               \
            act(3);                                                                                \
    } while (0)
#define BF16_LOAD(sum)  _tile_loadd(sum, (c + (sum)*BF16_TILE), c_bytes)
#define BF16_ZERO(sum)  _tile_zero(sum)
#define BF16_STORE(sum) _tile_stored(sum, (c + (sum)*BF16_TILE), c_bytes)
#define BF16_ADD(sum)                                                                              \
    do {                                                                                           \
        _tile_loadd(6, (b + (sum)*2 * BF16_TILE), b_bytes);                                        \
        _tile_dpbf16ps(sum, 4, 6);                                                                 \
    } while (0)

/* 16 rows of a by n_sums tiles of columns; a, b, c: their first elements. */
static void bf16_tiles(const struct bf16_product *product, uint32_t n_sums, const uint16_t *a,
                       const uint16_t *b, float *c, size_t c_stride)
{
    const size_t a_bytes = product->a_stride * sizeof *a, b_bytes = product->b_stride * sizeof *b;
    const size_t c_bytes = c_stride * sizeof *c;
    amx_settle(c);
    if (product->adds)
        BF16_EACH_SUM(n_sums, BF16_LOAD);
    else
        BF16_EACH_SUM(n_sums, BF16_ZERO);
    for (uint32_t pair = 0; pair < product->n_pairs; pair += BF16_TILE) {
        _tile_loadd(4, (a + 2 * (size_t)pair), a_bytes);
        BF16_EACH_SUM(n_sums, BF16_ADD);
        b += BF16_TILE * product->b_stride;
    }
    BF16_EACH_SUM(n_sums, BF16_STORE);
}

/* The same with fewer rows of c. */
static void bf16_few_rows(const struct bf16_product *product, uint32_t n_rows, uint32_t n_sums,
                          const uint16_t *a, const uint16_t *b, float *c)
{
    _Alignas(64) float sums[BF16_TILE][BF16_QUAD * BF16_TILE] = {{0}};
    const size_t bytes = n_sums * BF16_TILE * sizeof *c;
    for (uint32_t r = 0; r < n_rows && product->adds; r++)
        memcpy(sums[r], c + r * product->c_stride, bytes);
    bf16_tiles(product, n_sums, a, b, sums[0], BF16_QUAD * BF16_TILE);
    for (uint32_t r = 0; r < n_rows; r++)
        memcpy(c + r * product->c_stride, sums[r], bytes);
}

static void bf16_multiply(const struct bf16_product *product)
{
    for (uint32_t row = 0; row < product->n_rows; row += BF16_TILE)
        for (uint32_t column = 0; column < product->n_columns; column += BF16_QUAD * BF16_TILE) {
            uint32_t n_rows = product->n_rows - row;
            uint32_t n_sums = (product->n_columns - column) / BF16_TILE;
            const uint16_t *a = product->a + row * product->a_stride;
            const uint16_t *b = product->b + 2 * (size_t)column;
            float *c = product->c + row * product->c_stride + column;
            n_sums = n_sums < BF16_QUAD ? n_sums : BF16_QUAD;
            if (n_rows >= BF16_TILE)
                bf16_tiles(product, n_sums, a, b, c, product->c_stride);
            else
                bf16_few_rows(product, n_rows, n_sums, a, b, c);
        }
}
