/*
 * gemm_amx_int8 - computes products with packed INT8 weights with the matrix unit.
 *
 * Thread: any.
 */
#pragma once

#include "kernels/cpu/products/gemm_panels.h"

#ifdef HAS_AMX_INT8
/* Computes all tokens of the part by all its panels, 16 by 16. */
#define gemm_amx_int8 ISA(gemm_amx_int8)
void gemm_amx_int8(const struct gemm_part *part, const struct rounded *x);
#endif
