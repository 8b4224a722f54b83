/*
 * attention - the attention operator on the device that is bound to the thread (device_bound).
 *
 *     cuda             the best kernels for the layer and the step
 *                      (attention_flash.cuh, attention_grouped.cuh on tensor cores, else as cuda_masked)
 *     cuda_masked      attention_masked.cuh: CUDA cores, every feature
 *     cuda_reference   attention_reference.cuh: one warp a row, only with a running softmax
 *
 * The last two have the name "cuda_masked" and give the same bits. So does "cuda" with MATH_COMPUTE, in both phases.
 *
 * In "cuda" and "cuda_masked" attention_whole computes contexts of PATH_SHORT and PATH_UNFUSED, with the same bits in both
 * paths: it stores scores of four rows in shared memory, or of as many rows as fit the workspace at a time
 * (attention_step.h). "cuda_reference" refuses them. PATH_AUTO and PATH_FLASH use a running softmax, and so does generation.
 *
 * With MATH_BF16 and MATH_FP16, heads of 64 or 128, no sink_tokens and a cache with rows at multiples of 16 bytes:
 *
 *     contexts      attention_flash computes them over a cache of the math's type, if they are causal, without bias, mask or
 *                   cap, and their scores are not stored; on sm_90 attention_flash_sm90, with the same bits
 *     generation    attention_grouped computes it over such a cache or one of 8 bits, in this math, if the compute dtype has
 *                   no more bits than the math
 *
 * Both sum in other orders, which still depend only on the keys of a row, as long as V is finite: they multiply keys of a
 * tile that a row does not see by 0. The layer and its cache decide the choice, never a step. MATH_INT8 and
 * MATH_INT8_PV_FP8 are for contexts of all three, with the same bits (attention_int8.cuh).
 *
 * A layer and a metadata belong to the device that was bound when they were created. A field that says "host" is read at
 * creation. All other arrays of a configuration, and every tensor, are addresses of the device.
 *
 * Thread: as kernels/attention.h.
 */
#pragma once

#include "kernels/attention.h"

extern const struct attention_backend cuda_attention;
extern const struct attention_backend cuda_attention_masked;
extern const struct attention_backend cuda_attention_reference;

/* The back end with this name; NULL or empty: cuda_attention. Returns NULL if there is none with this name. */
const struct attention_backend *cuda_attention_named(const char *name);
