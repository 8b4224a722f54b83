/*
 * gemm_workspace - the sizes of blocks in the workspace of products (kernel_set.h), for all sets of the host; how tokens lie in
 * it: cpu/products/lanes_tokens.h.
 */
#pragma once

#define GEMM_LANES       16u   /* sums of a row */
#define GEMM_TOKEN_BLOCK 192u  /* tokens of a task, at most; a multiple of 6 and 12 */
#define GEMM_K_BLOCK     2048u /* elements that a task rearranges at a time, at most */
#define GEMM_LANE_PAD    16u   /* floats after a lane */
