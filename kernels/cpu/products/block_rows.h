/*
 * block_rows - up to 256 elements of sixteen rows of blocks (kernels/blocks.h) times one token, with AVX2: the bits of a panel
 * (block_panel.h), without storing one.
 */
#pragma once

#include "kernels/cpu/products/block_chunk.h"
#include "kernels/cpu/products/gemm_path.h"

/* y[row .. row + 15] += elements k .. k + n - 1 of the rows times x, which begins there. As for block_panel_take. */
#define block_rows_multiply REST(block_rows_multiply)
void block_rows_multiply(const struct gemm *gemm, uint32_t row, uint32_t k, uint32_t n,
                         const struct rounded16 *x, float y[LANES]);
