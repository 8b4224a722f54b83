/*
 * gemm_blocks - products of weights in blocks of GGML (kernels/blocks.h), as whole numbers.
 *
 * Every 32 elements of x are rounded to 16 bits with a scale of their own: 2^-16 of the largest of them, as good as none beside
 * what the blocks lost; or to 8 bits, if x_is_int8. Then a group of 16 or 32 elements of a block, which has one factor and perhaps an offset, is
 *
 *     y += (float)(sum of the whole numbers of w and x) * (factor * scale of x)
 *     y += offset * ((sum of the whole numbers of x) * scale of x)
 *
 * by fused multiply-adds, groups in order. Sums of a group are exact: at most 32 * 255 * 32,639. So the bits depend on no layout.
 *
 *     tokens    are rounded once a call, in the workspace of struct gemm; without one, by each task
 *     weights   stay where they are mapped; a task takes 256 elements of sixteen rows apart at a time: block_panel.h
 *
 * Bound: one token, the bytes of the weights; many, multiply-adds of 16 bits.
 */
#pragma once

#include "kernels/cpu/products/gemm_path.h"

#define gemm_blocks_path BLOCK_PATH(gemm_blocks_path)
struct gemm_path gemm_blocks_path(const struct gemm *gemm);
/* Prepares nothing. */
#define gemm_blocks_path_alone BLOCK_PATH(gemm_blocks_path_alone)
struct gemm_path gemm_blocks_path_alone(const struct gemm *gemm);
/* Of its prepared tokens; grows with both. */
#define gemm_blocks_bytes BLOCK_PATH(gemm_blocks_bytes)
size_t gemm_blocks_bytes(uint32_t n_tokens, uint32_t n_in);
