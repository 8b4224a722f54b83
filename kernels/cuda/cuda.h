/*
 * cuda - the table of the NVIDIA back end. Every address in an operator belongs to the device that is bound to the thread
 * (device_bind). A function returns when its kernels are enqueued there.
 *
 *     activations F32, BF16, F16; weights any dtype. F16 and BF16 x with F16, BF16 or INT8 weights, aligned to 16 bytes, use
 *     tensor cores; all other products use plain arithmetic, which is right but slow
 *     moe is NULL: no experts yet. gemm_packed_bytes is NULL: no packed weights
 *     argmax, log_sum_exp: on host memory, with the host's set
 *
 * As in the host's sets, operators only assert their arguments; callers check them before (gemm_check_operands).
 *
 * Thread: the engine's.
 */
#pragma once

#include "kernels/kernel_set.h"

struct candidates_parameters; /* sampling_parameters.h */

extern const struct kernels cuda_kernels;
/* The same table with the name "cublaslt". Planned products use the device's library (device_open_products): BF16 and F16
 * weights of x's type, aligned to 16 bytes, without a bias. The bits of a row may depend on its batch. */
extern const struct kernels cuda_fast_kernels;

/* Call it at start: plans the library for products like this one, with as many tokens or fewer. Products that the library
 * does not take stay with cuda_kernels. UNSUPPORTED, DEVICE_LOST. */
MUST_CHECK enum status cuda_gemm_plan(const struct gemm *gemm, struct error *error);

/* Finds the candidates of n_rows rows of logits, from which the host draws. Addresses in parameters are the device's. */
void cuda_candidates(const struct candidates_parameters *parameters, uint32_t n_rows);

/* The kernel of a product. All kernels with tiles give the same bits; PLAIN gives other bits. */
enum cuda_gemm_variant {
    CUDA_GEMM_PLAIN,
    CUDA_GEMM_WIDE, /* 128 outputs x 128 tokens */
    CUDA_GEMM_MID,  /* 64 x 64 */
    CUDA_GEMM_SLIM, /* 64 x 16: for few tokens */
    CUDA_GEMM_THIN, /* 32 x 16: for few tokens and few outputs */
    /* BF16 on sm_90 only: products of four warps */
    CUDA_GEMM_FOURS_256, /* 128 x 256 */
    CUDA_GEMM_FOURS_128, /* 128 x 128 */
    CUDA_GEMM_FOURS_64,  /* 64 x 64 */
    CUDA_GEMM_VARIANTS
};

/* The kernel that gemm() chooses. Whether it is PLAIN depends only on dtypes, n_in and addresses, not on n_tokens. */
enum cuda_gemm_variant cuda_gemm_choose(const struct gemm *gemm);
bool cuda_gemm_takes(const struct gemm *gemm, enum cuda_gemm_variant variant);
/* Runs products with this variant; all must have the same dtypes. */
void cuda_gemm_run(const struct gemm *gemms, uint32_t n_gemms, enum cuda_gemm_variant variant);
