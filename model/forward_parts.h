/*
 * forward_parts - what a forward pass is made of: forward_create.c sizes and warms it, forward.c runs it. For these two files.
 */
#pragma once

#include "device/stage.h"
#include "kernels/attention_backends.h"
#include "kernels/kernels.h"
#include "model/forward.h"
#include "model/weights.h"

/* Rows of the MLP's inner activations at a time: bounds the workspace, stays in the second cache,
 * and is enough to spread the cost of widening 16-bit weights. */
#define MLP_ROWS 512u

struct forward {
    const struct model_config *config;
    const struct weights *weights;
    const struct kernels *kernels;
    const struct attention_backend *backend;
    struct thread_pool *threads;
    struct forward_options options;
    uint32_t kv_tokens_max; /* of one sequence */
    uint32_t qkv_width;     /* floats of a token: Q, K and V heads */

    struct rope *rope;
    struct attention **attention;  /* [n_layers] */
    struct attention_config shape; /* heads and dtypes, the same in every layer */
    struct attention_metadata *metadata;
    struct kv_view kv; /* base NULL: no pool yet */

    struct attention_sequence *sequences; /* [sequences_max] */
    struct stage *stage;                  /* struct staged of each step */
    struct device_memory activations;     /* of which: */
    float *hidden;                        /* [tokens_max][hidden] the residual stream */
    float *normed;                        /* [tokens_max][hidden] */
    float *qkv;                           /* [tokens_max][qkv_width] */
    float *attended;                      /* [tokens_max][n_heads * head_dim] */
    float *gate, *up;                     /* [MLP_ROWS][ffn] */
};
