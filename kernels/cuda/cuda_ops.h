/*
 * cuda_ops - declares the functions of the table that are in other files.
 */
#pragma once

#include "kernels/kernel_set.h"

void cuda_gemm(struct thread_pool *pool, const struct gemm *gemms, uint32_t n_gemms);
void cuda_gemm_fast(struct thread_pool *pool, const struct gemm *gemms, uint32_t n_gemms);
void cuda_kv_update(struct thread_pool *pool, const struct kv_update *update);
void cuda_rotary(struct thread_pool *pool, const struct rotary *rotary);

static inline uint32_t cuda_divide_up(uint64_t a, uint32_t b)
{
    return (uint32_t)((a + b - 1) / b);
}
