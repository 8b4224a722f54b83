/*
 * quantize_blocks - rounds weight matrices to blocks of 32 elements (blocks.h), as GGUF files have them.
 *
 *     Q8_0    d q        d: largest magnitude / 127, rounded to F16; q: the nearest whole number
 *     Q4_1    d q + m    d, m: of some candidates those with the smallest sum of squared errors, among them the range of the values and
 *                        least squares for the whole numbers that come of it
 *
 * The result depends on the values of a block alone.
 * Thread: as kernel_set.h.
 */
#pragma once

#include "kernels/dtype.h"

#include <stddef.h>
#include <stdint.h>

struct thread_pool;

#define QUANTIZE_BLOCK 32u /* n_in is a multiple of it */

/* blocks_out: [n_out][n_in / 32] of dtype, Q8_0 or Q4_1. source: [n_out][n_in] F32, BF16, F16 or blocks, all finite. */
void quantize_blocks(struct thread_pool *pool, enum dtype dtype, uint32_t n_out, uint32_t n_in,
                     enum dtype source_dtype, const void *source, void *blocks_out);
