/*
 * quantized - the products of SageAttention: rows of Q and tiles of K in INT8; the mean of the tile is subtracted from K.
 *
 *     s = q (k - mean) + q mean,   q = q_unit q8,   k - mean = k_unit k8
 *
 * The first product has whole numbers only, so every instruction set gives the same bits.
 */
#pragma once

#include "kernels/cpu/attention/tile.h"

#define quantized_ceiling REST(quantized_ceiling)
#define quantized_weights REST(quantized_weights)
#define quantized_load    REST(quantized_load)
#define quantized_qk      REST(quantized_qk)

enum { QUANTIZED_ROWS_MAX = 96 }; /* rows of a block */

/* Rows of Q, and a tile of K. */
struct quantized_q {
    int8_t *rows; /* [ROWS_MAX][head_dim] */
    float *units; /* [ROWS_MAX] */
    int8_t *k;    /* [head_dim / 4][TILE_KEYS][4] */
    float *mean;  /* [head_dim] */
};

void quantized_load(uint32_t n_rows, uint32_t head_dim, const float *q, struct quantized_q q8);

/* Computes scores [n_rows][TILE_KEYS] for the tile k_t, which has keys first .. n_keys - 1. */
void quantized_qk(uint32_t n_rows, uint32_t first, uint32_t n_keys, uint32_t head_dim,
                  const float *q, const float *k_t, struct quantized_q q8, float *scores);

/* For P in E4M3, also with MATH_FP8. quantized_ceiling rounds up to a whole multiple of log(2), so that exp of the
 * difference of two results is a power of two. quantized_weights rounds 256 times each weight (0 .. 1). */
float quantized_ceiling(float score);
void quantized_weights(uint32_t n, float *weights);
