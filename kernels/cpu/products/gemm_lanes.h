/*
 * gemm_lanes - products of many tokens from row-major weights of any dtype: the sums of gemm_f32, bit for bit, without
 * sums across a vector.
 *
 * gemm_f32 adds products in sixteen lanes, lane i those of the elements 16 j + i, and at the end adds the lanes: 8, 4, 2
 * and 1 apart. The sum of a lane is a chain of its own. So sixteen outputs are computed side by side in a vector, one
 * lane after the other:
 *
 *     acc[token][output] = fma(x[token][16 j + lane], w[output][16 j + lane], acc[token][output])   for all j
 *
 * Lanes come in the order 0, 8, 4, 12, 2, ... Then the sum of the lanes is a binary counter: after lane number i of that order as many
 * finished sums are added to it as i has ones at its end.
 *
 *     tokens    are rearranged once a call, in the workspace of struct gemm
 *     weights   stay where they are; a task transposes sixteen rows at a time into a panel [lane][j][16] on its stack
 *
 * Rows longer than GEMM_K_BLOCK are cut: the sums of all lanes are kept between two blocks.
 *
 * Bound: multiply-adds; with few tokens also transposing, and the bytes of the weights.
 */
#pragma once

#include "kernels/cpu/products/gemm_path.h"

/* Whether the set has the path, and the tokens suit it: decision 0042. */
#define gemm_lanes_suit REST(gemm_lanes_suit)
bool gemm_lanes_suit(const struct gemm *gemm);

/* Of its prepared tokens; grows with both. 0: the set does not have the path. */
#define gemm_lanes_bytes REST(gemm_lanes_bytes)
size_t gemm_lanes_bytes(uint32_t n_tokens, uint32_t n_in);

#define gemm_lanes_path REST(gemm_lanes_path)
struct gemm_path gemm_lanes_path(const struct gemm *gemm);
