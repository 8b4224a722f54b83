#include "kernels/kernel_set.h"

size_t gemm_workspace_bytes(const struct kernels *kernels, uint32_t n_tokens, uint32_t n_in)
{
    return kernels->gemm_workspace_bytes ? kernels->gemm_workspace_bytes(n_tokens, n_in) : 0;
}
