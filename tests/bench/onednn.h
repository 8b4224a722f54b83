/*
 * onednn - the peer of gemm_bench: the same product by oneDNN's matmul.
 */
#pragma once

#include <stdint.h>

/* Seconds of one product, the best of many; dtype "f32", "bf16" or "s8" of tokens and weights.
 * n_copies of the weights are walked through. 0: built without oneDNN, or it has none. */
double onednn_seconds(const char *dtype, uint32_t n_tokens, uint32_t n_in, uint32_t n_out,
                      uint32_t n_copies);
