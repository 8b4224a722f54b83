/*
 * block_rows - sixteen rows of blocks (kernels/blocks.h) times one token, with AVX2 or AVX-512 VNNI: the bits of a panel (block_panel.h), without
 * storing one.
 */
#pragma once

#include "kernels/cpu/products/block_chunk.h"
#include "kernels/cpu/products/gemm_path.h"

/* y = rows row .. row + 15 times x; those behind n_out are like the last row. Asks for the next sixteen rows. */
#define block_rows_multiply BLOCKS(block_rows_multiply)
void block_rows_multiply(const struct gemm *gemm, uint32_t row, const struct rounded16 *x,
                         float y_out[LANES]);
