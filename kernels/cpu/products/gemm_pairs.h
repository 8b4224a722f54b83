/*
 * gemm_pairs - computes products of several tokens with packed INT8 weights by multiply-adds of pairs in 16 bits, for
 * sets without dot products of bytes.
 *
 * Thread: any.
 */
#pragma once

#include "kernels/cpu/products/gemm_panels.h"

#ifdef HAS_PAIRS
enum {
    PAIRS_TILE = 4,       /* tokens */
    PAIRS_TOKENS_MIN = 5, /* fewer do not pay for widening the weights */
};

/* Subtracts the sums of x0 x1 from the corrections of rounded tokens, as gemm_pairs needs them. */
#define gemm_pairs_correct ISA(gemm_pairs_correct)
void gemm_pairs_correct(const struct panels *panels, const struct rounded *x, uint32_t n_tokens);

/* Computes all tokens of the part by all its panels. */
#define gemm_pairs ISA(gemm_pairs)
void gemm_pairs(const struct gemm_part *part, const struct rounded *x);
#endif
