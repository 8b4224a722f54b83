/*
 * gemm_parts - the same product, whole on one set and its tokens in parts of one to five on another; a workspace for any set.
 */
#pragma once

#include "kernels/kernels.h"

/* whole and parts have operands of their own, with the same values. Asserts that y has the same bits. */
void gemm_check_parts(const struct kernels *kernels, struct thread_pool *pool,
                      const struct gemm *whole, const struct kernels *other,
                      const struct gemm *parts);

/* The most that gemm_workspace_bytes says for any set of this machine. */
size_t gemm_workspace_most(uint32_t n_tokens, uint32_t n_in);
