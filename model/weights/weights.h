/*
 * weights - the tensors of a model, sorted by their use in the decoder.
 *
 * Matrices are [n_out][n_in], row-major. They are in the mapped safetensors file, with any alignment and each with its
 * own dtype; or INT8, and packed if this machine's kernels want that. For a device that does not read the host's memory
 * they are copies on the device (placed_weights.h). A tensor that the model does not have (a bias, a norm) has data
 * NULL. One table has names, shapes and conditions (weight_table.c).
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
    uint64_t packed_bytes; /* if packed */
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
    struct tensor head;      /* [vocabulary][hidden]; the embedding if tied */
    struct layer_weights *layers;
};
