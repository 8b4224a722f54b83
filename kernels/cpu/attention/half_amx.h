/*
 * half_amx - the BF16 product with the matrix unit: 16 rows by up to 64 columns in tiles 0 .. 3. Rows of a are read
 * up to a multiple of 16; the results of the extra rows are not used.
 */
#pragma once

#include "kernels/cpu/attention/half_product.h"
#include "kernels/cpu/vector/amx.h"

enum { HALF_TILE = 16, HALF_QUAD = 4 };

static void half_start(void)
{
    amx_start(64, HALF_TILE);
}

static void half_finish(void)
{
    amx_finish();
}

#define HALF_EACH_SUM(n, act)                                                                      \
    do {                                                                                           \
        act(0);                                                                                    \
        if ((n) > 1)                                                                               \
            act(1);                                                                                \
        if ((n) > 2)                                                                               \
            act(2);                                                                                \
        if ((n) > 3)                                                                               \
            act(3);                                                                                \
    } while (0)
#define HALF_LOAD(sum)  _tile_loadd(sum, (c + (sum)*HALF_TILE), c_bytes)
#define HALF_ZERO(sum)  _tile_zero(sum)
#define HALF_STORE(sum) _tile_stored(sum, (c + (sum)*HALF_TILE), c_bytes)
#define HALF_ADD(sum)                                                                              \
    do {                                                                                           \
        _tile_loadd(6, (b + (sum)*2 * HALF_TILE), b_bytes);                                        \
        _tile_dpbf16ps(sum, 4, 6);                                                                 \
    } while (0)

/* 16 rows of a by n_sums tiles of columns; a, b, c: their first elements. */
static void half_tiles(const struct half_product *product, uint32_t n_sums, const uint16_t *a,
                       const uint16_t *b, float *c, size_t c_stride)
{
    const size_t a_bytes = product->a_stride * sizeof *a, b_bytes = product->b_stride * sizeof *b;
    const size_t c_bytes = c_stride * sizeof *c;
    amx_settle(c);
    if (product->adds)
        HALF_EACH_SUM(n_sums, HALF_LOAD);
    else
        HALF_EACH_SUM(n_sums, HALF_ZERO);
    for (uint32_t pair = 0; pair < product->n_pairs; pair += HALF_TILE) {
        _tile_loadd(4, (a + 2 * (size_t)pair), a_bytes);
        HALF_EACH_SUM(n_sums, HALF_ADD);
        b += HALF_TILE * product->b_stride;
    }
    HALF_EACH_SUM(n_sums, HALF_STORE);
}

/* The same with fewer rows of c. */
static void half_few_rows(const struct half_product *product, uint32_t n_rows, uint32_t n_sums,
                          const uint16_t *a, const uint16_t *b, float *c)
{
    _Alignas(64) float sums[HALF_TILE][HALF_QUAD * HALF_TILE] = {{0}};
    const size_t bytes = n_sums * HALF_TILE * sizeof *c;
    for (uint32_t r = 0; r < n_rows && product->adds; r++)
        memcpy(sums[r], c + r * product->c_stride, bytes);
    half_tiles(product, n_sums, a, b, sums[0], HALF_QUAD * HALF_TILE);
    for (uint32_t r = 0; r < n_rows; r++)
        memcpy(c + r * product->c_stride, sums[r], bytes);
}

static void half_multiply(const struct half_product *product)
{
    for (uint32_t row = 0; row < product->n_rows; row += HALF_TILE)
        for (uint32_t column = 0; column < product->n_columns; column += HALF_QUAD * HALF_TILE) {
            uint32_t n_rows = product->n_rows - row;
            uint32_t n_sums = (product->n_columns - column) / HALF_TILE;
            const uint16_t *a = product->a + row * product->a_stride;
            const uint16_t *b = product->b + 2 * (size_t)column;
            float *c = product->c + row * product->c_stride + column;
            n_sums = n_sums < HALF_QUAD ? n_sums : HALF_QUAD;
            if (n_rows >= HALF_TILE)
                half_tiles(product, n_sums, a, b, c, product->c_stride);
            else
                half_few_rows(product, n_rows, n_sums, a, b, c);
        }
}
