/*
 * gemm_path - the interface of the implementations of a product. gemm.c divides products into tasks, and a path
 * computes them.
 *
 *     gemm_f32    float32 multiply-adds; every weight is widened exactly (times its scale)
 *     gemm_lanes  the same sums for many tokens, in another division
 *     gemm_batch  the same sums for about sixteen tokens
 *     gemm_blocks weights in blocks: x is rounded to 16 bits, sums of a group are whole numbers
 *     gemm_int8   packed INT8 weights: x is rounded to INT8, sums of a group are whole numbers
 *
 *     gemm_amx_bf16   BF16 weights with the matrix unit, activations in three parts: float32 precision
 *
 * In each path the bits of y[t][o] depend only on the weights of row o, x[t] and n_in.
 */
#pragma once

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vector/vec.h"

/* Weight rows row .. row_end - 1 against tokens token .. token_end - 1. With strips, the same rows of each strip, too:
 * those that are strip, 2 strip ... rows further, as far as there are any. */
struct gemm_part {
    const struct gemm *gemm;
    uint32_t row, row_end;
    uint32_t strip; /* weight rows of a strip; 0: there are none */
    uint32_t token, token_end;
    const void *tokens; /* of the call, as the path prepared them; NULL: it prepares none */
};

/* How a product is divided, and the function that computes a part. */
struct gemm_path {
    uint32_t token_block; /* tokens of a task */
    uint32_t row_step;    /* the rows of a task are a multiple of this */
    uint32_t rows_min;    /* and at least this many, so that preparing a task pays off */
    uint32_t n_strips;    /* of the weight rows, far apart; a task has rows of each; 0: no strips */
    void (*run)(const struct gemm_part *part);
    /* Prepares a piece of the tokens of the call. Any thread may do it; tasks need all pieces. NULL: the path reads x. */
    void (*prepare)(const struct gemm *gemm, uint32_t piece, void *tokens_out);
    uint32_t n_pieces;
    size_t tokens_bytes;
};

#define gemm_f32_path REST(gemm_f32_path)
struct gemm_path gemm_f32_path(const struct gemm *gemm);

#define gemm_int8_path ISA(gemm_int8_path)
struct gemm_path gemm_int8_path(const struct gemm *gemm);
/* Of its prepared tokens; grows with both. */
#define gemm_int8_bytes ISA(gemm_int8_bytes)
size_t gemm_int8_bytes(uint32_t n_tokens, uint32_t n_in);
/* Prepares nothing. */
#define gemm_int8_path_alone ISA(gemm_int8_path_alone)
struct gemm_path gemm_int8_path_alone(const struct gemm *gemm);

#ifdef HAS_AMX_BF16
#define gemm_amx_bf16_path ISA(gemm_amx_bf16_path)
struct gemm_path gemm_amx_bf16_path(void);
#endif

static inline void gemm_store_each(const struct gemm *gemm, uint32_t token, uint32_t row,
                                   uint32_t n, const float *sums)
{
    float *y = (float *)gemm->y + token * gemm->y_stride + row;
    for (uint32_t i = 0; i < n; i++) {
        float sum = sums[i];
        if (gemm->bias)
            sum += dtype_load(gemm->bias_dtype, gemm->bias, row + i);
        y[i] = gemm->accumulate ? y[i] + sum : sum;
    }
}

/* y[token][row .. row + 15] = sums + bias (+ y), in this order; of rows behind n_out nothing. */
static inline void gemm_store_vec(const struct gemm *gemm, uint32_t token, uint32_t row, vec sums)
{
    const uint32_t n = gemm->n_out - row;
    if (n < LANES || (gemm->bias && gemm->bias_dtype > DTYPE_F16)) {
        float lanes[LANES];
        vec_store(lanes, sums);
        gemm_store_each(gemm, token, row, n < LANES ? n : LANES, lanes);
        return;
    }
    float *y = (float *)gemm->y + token * gemm->y_stride + row;
    if (gemm->bias) {
        const char *bias = gemm->bias;
        sums = vec_add(sums,
                       vec_load_as(gemm->bias_dtype, bias + row * dtype_bytes(gemm->bias_dtype)));
    }
    vec_store(y, gemm->accumulate ? vec_add(vec_load(y), sums) : sums);
}

/* The same of n rows, at most LANES. */
static inline void gemm_store(const struct gemm *gemm, uint32_t token, uint32_t row, uint32_t n,
                              const float *sums)
{
#ifdef __AVX512F__
    if (!gemm->bias || gemm->bias_dtype == DTYPE_F32) {
        float *y = (float *)gemm->y + token * gemm->y_stride + row;
        vec sum = vec_load_first(sums, n);
        if (gemm->bias)
            sum = vec_add(sum, vec_load_first((const float *)gemm->bias + row, n));
        if (gemm->accumulate)
            sum = vec_add(vec_load_first(y, n), sum);
        vec_store_first(y, sum, n);
        return;
    }
#endif
    if (n == LANES)
        gemm_store_vec(gemm, token, row, vec_load(sums));
    else
        gemm_store_each(gemm, token, row, n, sums);
}
