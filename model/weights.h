/*
 * weights - the tensors of a model, each with its place in the decoder.
 *
 * Matrices are [n_out][n_in], row-major, where the safetensors file is mapped: any alignment, each
 * in its own dtype; or INT8, packed for this machine's kernels where they want it. On a device that does not read the
 * host's memory they are copies in its own (placed_weights.h). A tensor that the model does not have (a bias, a norm) has data NULL.
 * Names, shapes and conditions stand in one table (weight_table.c).
 *
 * Thread: immutable while the model lives.
 */
#pragma once

#include "kernels/dtype.h"

#include <stdbool.h>
#include <stdint.h>

struct tensor {
    const void *data;
    enum dtype dtype;
    uint32_t n_out, n_in; /* n_in is 1 for a vector */
    /* INT8: as in struct gemm; scales NULL when packed. */
    const void *scales;
    uint32_t scale_columns;
    bool is_packed;
    uint64_t packed_bytes; /* when packed */
};

struct layer_weights {
    struct tensor attention_norm; /* [hidden] */
    struct tensor q;              /* [n_heads * head_dim][hidden] */
    struct tensor k, v;           /* [n_kv_heads * head_dim][hidden] */
    struct tensor q_bias, k_bias, v_bias;
    struct tensor q_norm, k_norm; /* [head_dim] */
    struct tensor o;              /* [hidden][n_heads * head_dim] */
    struct tensor o_bias;
    struct tensor mlp_norm; /* [hidden] */
    struct tensor gate, up; /* [ffn][hidden] */
    struct tensor down;     /* [hidden][ffn] */
    struct tensor gate_bias, up_bias, down_bias;
};

struct weights {
    struct tensor embedding; /* [vocabulary][hidden] */
    struct tensor norm;      /* [hidden] */
    struct tensor head;      /* [vocabulary][hidden]; the embedding when tied */
    struct layer_weights *layers;
};
