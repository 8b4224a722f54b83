/*
 * cpu - the vector implementation: the build compiles the files of this folder for each instruction set.
 *
 * ISA(x) is x_avx2, x_avx512 and so on: symbols that the files of one set share have the name of the set. A set
 * that differs from another set only in its products takes the rest from that set, ISA_REST. It takes the
 * attention from ISA_ATTENTION if that set multiplies BF16 or FP16 in its own way.
 */
#pragma once

#include "kernels/kernel_set.h"

extern const struct kernels kernels_scalar;
extern const struct kernels kernels_sse2;
extern const struct kernels kernels_avx2;
extern const struct kernels kernels_avx512;
extern const struct kernels kernels_avx2_vnni;
extern const struct kernels kernels_avx512_vnni;
extern const struct kernels kernels_avx512_bf16;
extern const struct kernels kernels_avx512_fp16;
extern const struct kernels kernels_amx;
extern const struct kernels kernels_amx_bf16;
extern const struct kernels kernels_amx_emulated; /* of tests alone */
extern const struct kernels kernels_neon;         /* this and the next: 64-bit Arm */
extern const struct kernels kernels_neon_dot;

/* The second spelling is clang's before 16. */
#if defined __AMX_BF16__ || defined __AMXBF16__
#define HAS_AMX_BF16
#endif
#if defined __AMX_INT8__ || defined __AMXINT8__ || defined AMX_EMULATED
#define HAS_AMX_INT8
#endif

#ifdef ISA_NAME
#define ISA_JOIN_(name, isa) name##_##isa
#define ISA_JOIN(name, isa)  ISA_JOIN_(name, isa)
#define ISA(name)            ISA_JOIN(name, ISA_NAME)

#ifndef ISA_REST
#define ISA_REST ISA_NAME
#endif
#define REST(name) ISA_JOIN(name, ISA_REST)
#ifndef ISA_ATTENTION
#define ISA_ATTENTION ISA_REST
#endif

/* The products of blocks take long to compile: sets with the same instructions for them share one. */
#ifndef ISA_BLOCKS
#define ISA_BLOCKS ISA_NAME
#endif
#define BLOCKS(name) ISA_JOIN(name, ISA_BLOCKS)
/* What takes blocks apart is the same with the matrix unit. */
#ifndef ISA_BLOCK_PATH
#define ISA_BLOCK_PATH ISA_BLOCKS
#endif
#define BLOCK_PATH(name) ISA_JOIN(name, ISA_BLOCK_PATH)

#define cpu_attention ISA_JOIN(cpu_attention, ISA_ATTENTION)
extern const struct attention_backend cpu_attention;

#define cpu_latent REST(cpu_latent)
extern const struct latent_backend cpu_latent;

#define cpu_moe ISA(cpu_moe)
extern const struct moe_backend cpu_moe;

#define cpu_gemm ISA(cpu_gemm)
void cpu_gemm(struct thread_pool *pool, const struct gemm *gemms, uint32_t n_gemms);

#define cpu_gemm_workspace_bytes ISA(cpu_gemm_workspace_bytes)
size_t cpu_gemm_workspace_bytes(uint32_t n_tokens, uint32_t n_in);

#define cpu_gemm_packed_bytes ISA(cpu_gemm_packed_bytes)
size_t cpu_gemm_packed_bytes(const struct gemm *weights);
#define cpu_gemm_pack ISA(cpu_gemm_pack)
void cpu_gemm_pack(struct thread_pool *pool, const struct gemm *weights, void *packed_out);

#define cpu_rms_norm ISA_JOIN(cpu_rms_norm, ISA_REST)
void cpu_rms_norm(struct thread_pool *pool, const struct rms_norm *norm);

#define cpu_layer_norm ISA_JOIN(cpu_layer_norm, ISA_REST)
void cpu_layer_norm(struct thread_pool *pool, const struct layer_norm *norm);

#define cpu_gated ISA_JOIN(cpu_gated, ISA_REST)
void cpu_gated(struct thread_pool *pool, const struct gated *gated);

#define cpu_rotary ISA_JOIN(cpu_rotary, ISA_REST)
void cpu_rotary(struct thread_pool *pool, const struct rotary *rotary);

#define cpu_kv_update ISA_JOIN(cpu_kv_update, ISA_REST)
void cpu_kv_update(struct thread_pool *pool, const struct kv_update *update);
#endif
