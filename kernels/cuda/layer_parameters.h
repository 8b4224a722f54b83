/*
 * layer_parameters - the arguments of the kernels around attention and products: layer.cuh.
 *
 * Strides are in elements, dtypes are enum dtype. If elements do not depend on each other, rows are cut into chunks of
 * LAYER_CHUNK elements, one CTA for each.
 */
#pragma once

#include "kernels/cuda/parameters.h"
#include "kernels/dtype.h"

#define LAYER_THREADS 256u
#define LAYER_CHUNK   1024u

PARAMETERS_BEGIN

/* y[i] += x[i] */
struct add_parameters {
    float *y;       /* [n] */
    const float *x; /* [n] */
    uint64_t n;
};

/* kernel_set.h, struct embedding */
struct embedding_parameters {
    const void *table;   /* [n_rows][n] */
    const uint32_t *ids; /* [rows of the grid] */
    void *y;             /* [rows][n] */
    uint64_t y_stride;
    uint32_t n, n_chunks, dtype, y_dtype;
};

/* kernel_set.h, struct rms_norm and struct layer_norm */
struct norm_parameters {
    const void *x; /* [rows][n] */
    void *y;       /* [rows][n] */
    const void *w; /* [n]; NULL: ones */
    const void *bias;
    uint64_t x_stride, y_stride;
    uint32_t n, x_dtype, y_dtype, w_dtype, bias_dtype;
    float eps, offset; /* offset is added to w */
    uint32_t reserved;
};

/* kernel_set.h, struct gated */
struct gated_parameters {
    const void *gate, *up; /* [rows][n]; up NULL: none */
    void *y;
    uint64_t gate_stride, up_stride, y_stride;
    uint32_t n, n_chunks, dtype, activation;
    float alpha, beta, limit; /* limit: infinity if there is none */
    uint32_t reserved;
};

/* rotary.h; a slot is two elements of a head */
struct rotary_parameters {
    const void *x;
    void *y;
    const float *cos, *sin;
    const uint32_t *positions; /* [n_tokens]; NULL: start + index */
    uint64_t x_token_stride, x_head_stride, y_token_stride, y_head_stride;
    uint64_t n_slots; /* of all heads of all tokens */
    uint32_t n_heads, head_dim, rotary_dim, is_interleaved, dtype, start;
};

/* kv_update.h; strides of the cache are bytes */
struct kv_update_parameters {
    const void *k, *v;
    const void *k_bias, *v_bias; /* NULL: none */
    const uint32_t *lens, *write_indices, *block_ids, *positions;
    const float *cos, *sin;
    uint8_t *base; /* of the layer */
    uint64_t k_stride, v_stride, block_stride, kv_stride, head_stride, token_stride;
    uint32_t n_blocks, block_tokens, is_contiguous, window, sink_tokens, padded_len;
    uint32_t dtype, bias_dtype, cache, n_kv_heads, head_dim, rotary_dim, is_interleaved;
    float k_scale, v_scale; /* 1 if the cache has none */
    uint32_t reserved;
};

PARAMETERS_END
