/*
 * block_panel - up to 256 elements of sixteen rows of blocks (kernels/blocks.h), taken apart: whole numbers in the order of
 * vector/bytes16.h or vector/pairs16.h, and the factors and offsets of their groups, rows side by side.
 */
#pragma once

#include "kernels/cpu/products/block_chunk.h"
#include "kernels/cpu/products/gemm_path.h"
#include "kernels/cpu/vector/bytes16.h"

struct block_panel {
#ifdef HAS_BYTES16
    _Alignas(64) uint8_t bytes[CHUNK * LANES]; /* [4 elements][16 rows][4], plus block_bias */
#else
    _Alignas(
        64) int16_t wide[CHUNK * LANES]; /* [4 elements][2 pairs][16 rows][2], plus block_bias */
#endif
    _Alignas(64) float factors[CHUNK_FACTORS][LANES];
    _Alignas(64) float offsets[CHUNK_FACTORS][LANES]; /* only of types that have them */
};

/* Elements k .. k + n - 1 of rows row .. row + 15; those behind n_out are like the last row. k is a multiple of CHUNK; n is at most
 * CHUNK, and less only at the end of a row. */
#define block_panel_take BLOCKS(block_panel_take)
void block_panel_take(const struct gemm *gemm, uint32_t row, uint32_t k, uint32_t n,
                      struct block_panel *panel_out);
