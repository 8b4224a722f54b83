/*
 * cuda - the table of the NVIDIA back end: every address in an operator is one of the device bound to the thread
 * (device_bind), and a function returns when its kernels are enqueued there.
 *
 *     activations F32, BF16, F16; weights any dtype. F16 and BF16 x with F16, BF16 or INT8 weights at 16 bytes: tensor
 *     cores; all else, right and slow, by plain arithmetic
 *     moe NULL: there are no experts here yet, and none of packed weights: gemm_packed_bytes NULL
 *     argmax, log_sum_exp: of host memory, by the host's set
 *
 * What an operator may be is judged as the host's sets do: by assertion, gemm_check_operands before it.
 *
 * Thread: the engine's.
 */
#pragma once

#include "kernels/kernel_set.h"

struct candidates_parameters; /* sampling_parameters.h */

extern const struct kernels cuda_kernels;
/* The same, called "cublaslt", with products by the device's library (device_open_products) where it has been planned: BF16 and
 * F16 weights of x's type at 16 bytes, without a bias. A row's bits may depend on its batch. */
extern const struct kernels cuda_fast_kernels;

/* At start: such products, with as many tokens or fewer, may come. What the library does not take is cuda_kernels'. UNSUPPORTED, DEVICE_LOST. */
MUST_CHECK enum status cuda_gemm_plan(const struct gemm *gemm, struct error *error);

/* What the host draws from, of n_rows rows of logits; addresses in parameters are the device's. */
void cuda_candidates(const struct candidates_parameters *parameters, uint32_t n_rows);

/* Which kernel a product takes. Those with tiles give the same bits, those of PLAIN are others. */
enum cuda_gemm_variant {
    CUDA_GEMM_PLAIN,
    CUDA_GEMM_WIDE, /* 128 outputs x 128 tokens */
    CUDA_GEMM_MID,  /* 64 x 64 */
    CUDA_GEMM_SLIM, /* 64 x 16: few tokens */
    CUDA_GEMM_THIN, /* 32 x 16: and few outputs */
    /* BF16 on sm_90 alone: products of four warps */
    CUDA_GEMM_FOURS_256, /* 128 x 256 */
    CUDA_GEMM_FOURS_128, /* 128 x 128 */
    CUDA_GEMM_FOURS_64,  /* 64 x 64 */
    CUDA_GEMM_VARIANTS
};

/* What gemm() takes for it; whether that is PLAIN depends on dtypes, n_in and addresses alone, not on n_tokens. */
enum cuda_gemm_variant cuda_gemm_choose(const struct gemm *gemm);
bool cuda_gemm_takes(const struct gemm *gemm, enum cuda_gemm_variant variant);
/* Products that all take variant, of the same dtypes. */
void cuda_gemm_run(const struct gemm *gemms, uint32_t n_gemms, enum cuda_gemm_variant variant);
