/*
 * kernels - the implementations of kernel_set.h on a host.
 *
 *     reference   sums in float64, one loop nest for each formula: the oracle
 *     scalar      plain C, for any machine; FMA is imitated where there is none, slowly
 *     sse2        for any x86-64: a product is rounded before it is added
 *     avx2        AVX2 + FMA + F16C
 *     avx512      AVX-512 F, BW, DQ, VL
 *     avx2_vnni, avx512_vnni   the same, and packed INT8 weights by dot products
 *     avx512_bf16 avx512_vnni, and attention's MATH_BF16 by BF16 dot products
 *     avx512_fp16 avx512_vnni, and attention's MATH_FP16 in FP16
 *     amx         avx512_vnni with the matrix unit, also for MATH_BF16
 *     amx_bf16    amx, and BF16 weights with the matrix unit, in three exact products: for prompts;
 *                 only used if a user asks for it
 *
 *     neon        for any 64-bit Arm; neon_dot: the same, and packed INT8 weights by dot products
 *
 * All sets from avx2 on give the same bits. The exceptions are BF16 weights in amx_bf16, and the math for which the last
 * four sets have instructions. The order of a row's sums depends only on the inner dimension, not on the number of rows,
 * threads or calls.
 *
 * Thread: any.
 */
#pragma once

#include "kernels/kernel_set.h"

#define KERNELS_MAX 12u /* at least the number of implementations */

/* name NULL or empty: the environment variable KVFERRY_CPU decides, else the fastest set that this machine can run.
 * INVALID_ARGUMENT: no such name. UNSUPPORTED: this machine lacks the instructions. */
MUST_CHECK enum status kernels_select(const char *name, const struct kernels **kernels_out,
                                      struct error *error);

/* Lists the implementations that this machine can run, reference first. */
uint32_t kernels_list(const struct kernels **list_out, uint32_t list_max);
