/*
 * gemm_amx_int8 - products with packed INT8 weights by the matrix unit.
 *
 * Thread: any.
 */
#pragma once

#include "kernels/cpu/products/gemm_panels.h"

#ifdef HAS_AMX_INT8
/* All tokens of the part by all its panels, 16 by 16. */
#define gemm_amx_int8 ISA(gemm_amx_int8)
void gemm_amx_int8(const struct gemm_part *part, const struct rounded *x);
#endif
