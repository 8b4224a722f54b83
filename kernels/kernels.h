/*
 * kernels - the implementations of kernel_set.h on a host.
 *
 *     reference   float64 accumulation, one loop nest a formula: the oracle
 *     scalar      plain C, for any machine; FMA is imitated where there is none, slowly
 *     sse2        for any x86-64: a product is rounded before it is added
 *     avx2        AVX2 + FMA + F16C
 *     avx512      AVX-512 F, BW, DQ, VL
 *     avx2_vnni, avx512_vnni   the same, and packed INT8 weights by dot products
 *     avx512_bf16 avx512_vnni, and attention's MATH_BF16 by BF16 dot products
 *     avx512_fp16 avx512_vnni, and attention's MATH_FP16 in FP16
 *     amx         avx512_vnni by the matrix unit, and MATH_BF16 too
 *     amx_bf16    amx, and BF16 weights by the matrix unit, in three exact products: for prompts, and
 *                 never chosen by itself
 *
 * All sets from avx2 on give the same bits. The exceptions are BF16 weights in amx_bf16, and the math for which the last
 * four have instructions. The bits of a row depend on the inner dimension alone, not on the number of rows, threads or calls.
 *
 * Thread: any.
 */
#pragma once

#include "kernels/kernel_set.h"

#define KERNELS_MAX 12u /* implementations there are, at most */

/* name NULL or empty: the environment's KVFERRY_CPU, else the fastest this machine has.
 * INVALID_ARGUMENT: no such name. UNSUPPORTED: this machine lacks the instructions. */
MUST_CHECK enum status kernels_select(const char *name, const struct kernels **kernels_out,
                                      struct error *error);

/* Lists the implementations that this machine can run, reference first. */
uint32_t kernels_list(const struct kernels **list_out, uint32_t list_max);
