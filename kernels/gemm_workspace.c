#include "kernels/gemm_workspace.h"

#include "kernels/kernel_set.h"

size_t gemm_workspace_bytes(uint32_t n_tokens, uint32_t n_in)
{
    const size_t n_j = (n_in + GEMM_LANES - 1) / GEMM_LANES;
    const size_t n_k_blocks = (n_j * GEMM_LANES + GEMM_K_BLOCK - 1) / GEMM_K_BLOCK;
    const size_t n_token_blocks = ((size_t)n_tokens + GEMM_TOKEN_BLOCK - 1) / GEMM_TOKEN_BLOCK;
    return GEMM_LANES * sizeof(float) *
           (n_tokens * n_j + GEMM_LANE_PAD * n_k_blocks * n_token_blocks);
}
