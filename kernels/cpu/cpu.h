/*
 * cpu - the vector implementation: the files of this folder compiled for each instruction set.
 *
 * ISA(x) is x_avx2 or x_avx512: what the files of one set share carries its name.
 */
#pragma once

#include "kernels/kernels.h"

extern const struct kernels kernels_avx2;
extern const struct kernels kernels_avx512;

#ifdef ISA_NAME
#define ISA_JOIN_(name, isa) name##_##isa
#define ISA_JOIN(name, isa)  ISA_JOIN_(name, isa)
#define ISA(name)            ISA_JOIN(name, ISA_NAME)

#define cpu_attention ISA(cpu_attention)
extern const struct attention_backend cpu_attention;

#define cpu_gemm ISA(cpu_gemm)
void cpu_gemm(struct thread_pool *pool, const struct gemm *gemms, uint32_t n_gemms);
#endif
