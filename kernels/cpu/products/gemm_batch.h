/*
 * gemm_batch - products of sixteen tokens, or a few less, from row-major weights of any dtype: the sums of gemm_f32, bit for bit.
 *
 * As gemm_lanes it computes lane after lane (decision 0042), but the tokens lie side by side in a vector, and the weights are
 * read one by one:
 *
 *     acc[output][token] = fma(w[output][16 j + lane], x[token][16 j + lane], acc[output][token])   for all j
 *
 * So no weight is transposed, which few tokens do not pay for. Tokens are transposed once a call, in the workspace of struct
 * gemm. A K block of six rows of weights stays in the L1 cache: BF16 are read where they are, unless rows share sets of the cache
 * or end in the block; others are widened.
 *
 * Bound: multiply-adds, and the bytes of the weights.
 */
#pragma once

#include "kernels/cpu/products/gemm_path.h"

/* Whether the set has the path, and the number of tokens suits it: decision 0042. */
#define gemm_batch_suit REST(gemm_batch_suit)
bool gemm_batch_suit(const struct gemm *gemm);

/* Of its prepared tokens; grows with both. 0: the set does not have the path. */
#define gemm_batch_bytes REST(gemm_batch_bytes)
size_t gemm_batch_bytes(uint32_t n_tokens, uint32_t n_in);

#define gemm_batch_path REST(gemm_batch_path)
struct gemm_path gemm_batch_path(const struct gemm *gemm);
