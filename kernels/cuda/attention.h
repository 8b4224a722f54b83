/*
 * attention - the attention operator on the device that is bound to the thread (device_bound).
 *
 *     cuda             what is best for the layer and the step
 *                      (attention_flash.cuh, attention_grouped.cuh on tensor cores, else as cuda_masked)
 *     cuda_masked      attention_masked.cuh: CUDA cores, everything
 *     cuda_reference   attention_reference.cuh: a row a warp, with a running softmax alone
 *
 * The last two are called "cuda_masked" and give the same bits. So does "cuda" under MATH_COMPUTE, in both phases.
 *
 * Contexts of PATH_SHORT and PATH_UNFUSED are attention_whole's in "cuda" and "cuda_masked", with the same
 * bits in both paths: scores of four rows in shared memory, or of as many rows as the workspace has room for at a time
 * (attention_step.h). "cuda_reference" refuses them. PATH_AUTO and PATH_FLASH are a running softmax, and so is generation.
 *
 * Under MATH_BF16 and MATH_FP16, with heads of 64 or 128, no sink_tokens and a cache whose rows lie at multiples of 16 bytes,
 *
 *     contexts      over a cache of the math's type, causal, without a bias, a mask or a cap, are attention_flash's unless
 *                   their scores are stored: on sm_90 attention_flash_sm90's, with the same bits
 *     generation    over such a cache or one of 8 bits is attention_grouped's and multiplies what the math says, where the
 *                   compute dtype has no more bits than that
 *
 * both of which sum in orders of their own, that still depend on a row's keys alone, as long as V is finite: they multiply keys
 * of a tile that a row does not see, by 0. They are chosen by the layer and its
 * cache, never by a step. MATH_INT8 and MATH_INT8_PV_FP8 are for contexts of all three, with the same bits
 * (attention_int8.cuh).
 *
 * A layer and a metadata belong to the device that was bound when they were
 * created. Where a feature's field says "host", it is read at creation; everything else in a configuration, and every
 * tensor, is an address of the device.
 *
 * Thread: as kernels/attention.h.
 */
#pragma once

#include "kernels/attention.h"

extern const struct attention_backend cuda_attention;
extern const struct attention_backend cuda_attention_masked;
extern const struct attention_backend cuda_attention_reference;

/* The names above; NULL or empty: cuda_attention. NULL: there is no such one. */
const struct attention_backend *cuda_attention_named(const char *name);
