/*
 * quantized_source - makes blocks (kernels/blocks.h) of the whole numbers of a quantized checkpoint, a strip of rows at a time.
 *
 * Thread: any; no state.
 */
#pragma once

#include "model/weights/weights.h"

#define SOURCE_STRIP 128u /* rows: those that share cache lines of words */

/* The bytes that the tensor of a quantized source needs in memory: its elements, or the scales of E4M3, then its elements only if its
 * rows come by turns. */
size_t quantized_source_bytes(const struct tensor *tensor);
size_t quantized_source_scales_bytes(const struct tensor *tensor); /* of E4M3 */

/* Rows SOURCE_STRIP * strip and on, to their place in made, which has the elements of all rows. */
void quantized_source_make(const struct tensor *tensor, uint32_t strip, uint8_t *made);

/* The scales of E4M3 as F32. */
void quantized_source_scales(const struct tensor *tensor, float *scales_out);
