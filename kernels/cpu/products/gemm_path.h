/*
 * gemm_path - the interface of the implementations of a product. gemm.c divides products into tasks, and a path
 * computes them.
 *
 *     gemm_f32    float32 multiply-adds; every weight is widened exactly (times its scale)
 *     gemm_lanes  the same sums for many tokens, in another division
 *     gemm_int8   packed INT8 weights: x is rounded to INT8, sums of a group are whole numbers
 *
 *     gemm_amx_bf16   BF16 weights with the matrix unit, activations in three parts: float32 precision
 *
 * In each path the bits of y[t][o] depend only on the weights of row o, x[t] and n_in.
 */
#pragma once

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vector/vec.h"

/* Weight rows row .. row_end - 1 against tokens token .. token_end - 1. */
struct gemm_part {
    const struct gemm *gemm;
    uint32_t row, row_end;
    uint32_t token, token_end;
    const float *tokens; /* of the call, rearranged for gemm_lanes; NULL: not */
};

/* How a product is divided, and the function that computes a part. */
struct gemm_path {
    uint32_t token_block; /* tokens of a task */
    uint32_t row_step;    /* the rows of a task are a multiple of this */
    uint32_t rows_min;    /* and at least this many, so that preparing a task pays off */
    void (*run)(const struct gemm_part *part);
};

#define gemm_f32_path REST(gemm_f32_path)
struct gemm_path gemm_f32_path(const struct gemm *gemm);

#define gemm_int8_path ISA(gemm_int8_path)
struct gemm_path gemm_int8_path(const struct gemm *gemm);

#ifdef HAS_AMX_BF16
#define gemm_amx_bf16_path ISA(gemm_amx_bf16_path)
struct gemm_path gemm_amx_bf16_path(void);
#endif

/* y[token][row .. row + n - 1] = sums + bias (+ y), in this order; n is at most LANES. */
static inline void gemm_store(const struct gemm *gemm, uint32_t token, uint32_t row, uint32_t n,
                              const float *sums)
{
    float *y = (float *)gemm->y + token * gemm->y_stride + row;
#ifdef __AVX512F__
    if (!gemm->bias || gemm->bias_dtype == DTYPE_F32) {
        vec sum = vec_load_first(sums, n);
        if (gemm->bias)
            sum = vec_add(sum, vec_load_first((const float *)gemm->bias + row, n));
        if (gemm->accumulate)
            sum = vec_add(vec_load_first(y, n), sum);
        vec_store_first(y, sum, n);
        return;
    }
#endif
#ifdef __AVX2__
    if (n == LANES && (!gemm->bias || gemm->bias_dtype <= DTYPE_F16)) {
        vec sum = vec_load(sums);
        if (gemm->bias)
            sum = vec_add(sum,
                          vec_load_as(gemm->bias_dtype, (const char *)gemm->bias +
                                                            row * dtype_bytes(gemm->bias_dtype)));
        vec_store(y, gemm->accumulate ? vec_add(vec_load(y), sum) : sum);
        return;
    }
#endif
    for (uint32_t i = 0; i < n; i++) {
        float sum = sums[i];
        if (gemm->bias)
            sum += dtype_load(gemm->bias_dtype, gemm->bias, row + i);
        y[i] = gemm->accumulate ? y[i] + sum : sum;
    }
}
