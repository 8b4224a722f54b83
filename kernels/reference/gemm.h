/*
 * gemm - the oracle's product: x times the weights and their scales, in float64.
 */
#pragma once

#include "kernels/kernel_set.h"

void reference_gemm(struct thread_pool *pool, const struct gemm *gemms, uint32_t n_gemms);

/* w[o][i] times its scale: exact. */
double reference_weight(const struct gemm *gemm, uint32_t o, uint32_t i);
