/*
 * block_chunk - what the products of blocks (gemm_blocks.h) have in common: how long rows are taken apart, what a type has, and
 * tokens rounded to 16 bits.
 */
#pragma once

#include "kernels/blocks.h"

enum {
    CHUNK = 256, /* elements of a row that are taken apart at a time: those of the longest block */
    PART = 32,   /* elements that x has a scale for */
    SUMS_STEP = 16, /* elements that x has a sum for */
    CHUNK_FACTORS = CHUNK / 16,
    CHUNK_PARTS = CHUNK / PART,
};

/* Tokens side by side: x ~ counts * scale. */
struct rounded16 {
    int16_t *counts; /* [tokens][stride], in the order of step16_store, or of bytes16_store */
    float *scales;   /* [tokens][stride / PART] */
    int32_t *sums;   /* [tokens][stride / SUMS_STEP] of counts */
    size_t stride;
};

static inline struct rounded16 rounded16_from(struct rounded16 x, size_t token, size_t k)
{
    x.counts += token * x.stride + k;
    x.scales += (token * x.stride + k) / PART;
    x.sums += (token * x.stride + k) / SUMS_STEP;
    return x;
}

/* The sum of the counts of a group of 16 or 32 elements from `at` on. */
static inline int32_t rounded16_sum(const struct rounded16 *x, size_t at, uint32_t group)
{
    const int32_t *sums = x->sums + at / SUMS_STEP;
    return group == SUMS_STEP ? sums[0] : sums[0] + sums[1];
}

/* Elements that share a factor. */
static inline uint32_t block_group(enum dtype dtype)
{
    return dtype == DTYPE_Q2_K || dtype == DTYPE_Q3_K || dtype == DTYPE_Q6_K ? 16 : 32;
}

static inline bool blocks_have_offsets(enum dtype dtype)
{
    return dtype == DTYPE_Q4_1 || dtype == DTYPE_Q5_1 || dtype == DTYPE_Q2_K ||
           dtype == DTYPE_Q4_K || dtype == DTYPE_Q5_K || dtype == DTYPE_Q4_ZERO;
}

#define EACH_BLOCK_TYPE(X)                                                                         \
    X(Q8_0)                                                                                        \
    X(Q4_0)                                                                                        \
    X(Q4_1) X(Q5_0) X(Q5_1) X(Q2_K) X(Q3_K) X(Q4_K) X(Q5_K) X(Q6_K) X(MXFP4) X(Q4_ZERO) X(Q8_FLOAT)

/* What is added to the whole numbers of a type, so that none is negative. */
static inline int32_t block_bias(enum dtype dtype)
{
    static const uint8_t BIASES[] = {128, 8, 0, 16, 0, 0, 4, 0, 0, 32, 12, 0, 128};
    return BIASES[dtype - DTYPE_Q8_0];
}
