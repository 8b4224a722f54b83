/*
 * kernel_set - all operators of a decoder, as one table for each implementation. kernels.h lists them.
 *
 * Activations have a dtype. The sets of the host take float32 and refuse the others. The set of a device also
 * takes BF16 and F16, so that a layer's rows are half as wide beside a float32 residual stream. Weights are of any
 * dtype and alignment, row-major as in a safetensors file. They are used in place and never copied.
 *
 * Thread: any function may run on any thread. Calls that share a pool run one at a time. A pool may be NULL:
 * everything runs on the caller. Small work always runs on the caller.
 */
#pragma once

#include "base/status.h"
#include "kernels/attention.h"
#include "kernels/dtype.h"

#include <stdbool.h>
#include <stdint.h>

struct causal_conv; /* recurrent.h: this and the next three */
struct delta_gate;
struct delta_rule;
struct gated_norm;
struct kv_update; /* kv_update.h */
struct latent_backend;
struct moe_backend;
struct rotary; /* rotary.h */
struct thread_pool;

/* y = x W^T + bias; with accumulate, y += x W^T + bias: y[t][o] = sum_i x[t][i] w[o][i] (+ bias[o]) (+ y).
 * The sum is rounded to float32. Then bias and y are added, in this order. At the end the result is rounded to y's
 * dtype. x and y do not overlap. n_tokens may be 0. */
struct gemm {
    const void *x; /* [n_tokens][n_in] */
    enum dtype x_dtype;
    uint64_t x_stride; /* elements from token to token */
    /* Of weights in blocks: x is rounded to 8 bits, not 16. Others do not read it. */
    bool x_is_int8;
    const void *w; /* [n_out][n_in] */
    enum dtype w_dtype;
    /* INT8, E4M3, E2M1, NULL for others: w[o][i] counts times scale[o / w_scale_rows][i /
     * w_scale_columns], [ceil(n_out / w_scale_rows)][ceil(n_in / w_scale_columns)] of float, or E8M0
     * for E2M1. INT8: w_scale_rows 1, w_scale_columns n_in, or 32 with n_in a multiple of it; E4M3:
     * any rows, columns n_in or more, or a multiple of 32; E2M1: 1 and 32, n_in a multiple of it.
     * Blocks (blocks.h) have none: n_in is a multiple of their elements. */
    const void *w_scales;
    uint32_t w_scale_rows, w_scale_columns;
    bool w_is_packed; /* INT8: w is what gemm_pack made, scales included; w_scales is not read */
    const void *bias; /* [n_out], NULL: none */
    enum dtype bias_dtype;
    void *y; /* [n_tokens][n_out] */
    enum dtype y_dtype;
    uint64_t y_stride;
    uint32_t n_tokens, n_in, n_out;
    bool accumulate;
    /* Aligned to 64 bytes; the same for all products of a call, and no other call uses it at the same time. NULL, or too
     * small: products of many tokens, and of INT8 weights and blocks, take longer, with the same bits. */
    void *workspace;
    size_t workspace_bytes;
};

/* For callers that fill in a gemm from a file; gemm itself only asserts.
 * INVALID_ARGUMENT, with a sentence: no gemm of the host takes these sizes, strides, dtypes or scales. */
MUST_CHECK enum status gemm_check(const struct gemm *gemm, struct error *error);
/* As gemm_check, but activations may be F32, BF16 or F16. */
MUST_CHECK enum status gemm_check_operands(const struct gemm *gemm, struct error *error);

/* y[t] = w * x[t] / sqrt(mean(x[t]^2) + eps). y may be x. */
struct rms_norm {
    const void *x;
    enum dtype x_dtype;
    uint64_t x_stride;
    const void *w; /* [n]; NULL: ones */
    enum dtype w_dtype;
    void *y;
    enum dtype y_dtype;
    uint64_t y_stride;
    uint32_t n_tokens, n;
    float eps;
    bool is_unit_offset; /* 1 + w in place of w (Gemma) */
};

/* y[t] = w * (x[t] - m) / sqrt(mean((x[t] - m)^2) + eps) + bias, m = mean(x[t]). y may be x. */
struct layer_norm {
    const void *x;
    enum dtype x_dtype;
    uint64_t x_stride;
    const void *w, *bias; /* [n]; NULL: ones (OLMo), zeros (Cohere) */
    enum dtype w_dtype, bias_dtype;
    void *y;
    enum dtype y_dtype;
    uint64_t y_stride;
    uint32_t n_tokens, n;
    float eps;
};

enum activation {
    ACTIVATION_SILU,      /* x / (1 + exp(-alpha x)): Llama, Qwen, Mistral; gpt-oss with an alpha */
    ACTIVATION_GELU,      /* x (1 + erf(x / sqrt(2))) / 2: Falcon, BERT */
    ACTIVATION_GELU_TANH, /* x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2: Gemma, GPT-2 */
    ACTIVATION_RELU,      /* max(x, 0): OPT, T5 */
    ACTIVATION_SIGMOID, /* 1 / (1 + exp(-alpha x)): the gate of attention's output in Qwen3-Next; not on a GPU */
};

/* y[t] = act(min(gate[t], limit)) * (clamp(up[t], -limit, limit) + beta). gpt-oss: SiLU with alpha
 * 1.702, beta 1, limit 7. y may be gate or up. */
struct gated {
    const void *gate;
    const void *up; /* NULL: no gate, y[t] = act(min(gate[t], limit)) */
    uint64_t gate_stride, up_stride;
    void *y;
    enum dtype dtype; /* of gate, up and y */
    uint64_t y_stride;
    uint32_t n_tokens, n;
    enum activation activation;
    float alpha; /* of SiLU and the sigmoid; 0: 1 */
    float beta;
    float limit; /* 0: none */
};

/* y[t] = table[ids[t]]. Every id is below n_rows; the caller has checked that. */
struct embedding {
    const void *table; /* [n_rows][n] */
    enum dtype dtype;
    const uint32_t *ids;
    void *y;
    enum dtype y_dtype;
    uint64_t y_stride;
    uint32_t n_tokens, n, n_rows;
};

/* y[t] = y[t] + scale * x[t], rounded after the product: the residual stream of a decoder whose branches are scaled
 * (Granite) or normalised (Gemma, OLMo 2) before they are added. */
struct scaled_add {
    const float *x; /* [n_tokens][n] */
    uint64_t x_stride;
    float *y; /* [n_tokens][n] */
    uint64_t y_stride;
    uint32_t n_tokens, n;
    float scale; /* 1: y + x */
};

/* x[t] = cap(scale * x[t]), cap(x) = soft_cap tanh(x / soft_cap): embeddings (Gemma, Granite), logits (Gemma 2, Cohere). */
struct scale {
    float *x; /* [n_tokens][n] */
    uint64_t x_stride;
    uint32_t n_tokens, n;
    float scale;
    float soft_cap; /* 0: none */
};

struct kernels {
    const char *name;
    const struct attention_backend *attention;
    const struct moe_backend *moe;       /* kernels/moe.h */
    const struct latent_backend *latent; /* kernels/latent.h; NULL: the set has none */
    /* Computes n_gemms products in one parallel region: Q, K and V, or gate and up. Their y do not overlap. */
    void (*gemm)(struct thread_pool *pool, const struct gemm *gemms, uint32_t n_gemms);
    /* The workspace with which products of n_tokens rows of n_in elements are fastest; a call uses the sum over its different x,
     * and over packed and other weights of the same x.
     * Grows with both. NULL: the set's products use none. */
    size_t (*gemm_workspace_bytes)(uint32_t n_tokens, uint32_t n_in);
    /* Rearranges INT8 weights (w, w_scales, n_in, n_out of their product) into packed_out, which is
     * aligned to 64 bytes. With packed weights gemm also rounds x to INT8, as x / (largest magnitude / 127),
     * with one scale for each token, or for each group of 32 of its elements, as the weights have. Sums of a group
     * are whole numbers, and all sets but scalar give the same bits. NULL: the set has no such product. */
    size_t (*gemm_packed_bytes)(const struct gemm *weights);
    void (*gemm_pack)(struct thread_pool *pool, const struct gemm *weights, void *packed_out);
    void (*rms_norm)(struct thread_pool *pool, const struct rms_norm *norm);
    void (*layer_norm)(struct thread_pool *pool, const struct layer_norm *norm);
    void (*gated)(struct thread_pool *pool, const struct gated *gated);
    void (*rotary)(struct thread_pool *pool, const struct rotary *rotary);
    void (*kv_update)(struct thread_pool *pool, const struct kv_update *update);
    /* NULL: the set has none of the four. */
    void (*causal_conv)(struct thread_pool *pool, const struct causal_conv *conv);
    void (*delta_gate)(struct thread_pool *pool, const struct delta_gate *gate);
    void (*delta_rule)(struct thread_pool *pool, const struct delta_rule *rule);
    void (*gated_norm)(struct thread_pool *pool, const struct gated_norm *norm);
    void (*embedding)(struct thread_pool *pool, const struct embedding *embedding);
    void (*add)(float *y, const float *x, uint64_t n); /* y += x */
    /* NULL: the set has neither. */
    void (*scaled_add)(struct thread_pool *pool, const struct scaled_add *scaled_add);
    void (*scale)(struct thread_pool *pool, const struct scale *scale);
    /* Index of the largest element; the lowest index if several are equal. NaN is chosen only if all are. n > 0. */
    uint32_t (*argmax)(const float *x, uint32_t n);
    /* log(sum(exp(x))), natural; n > 0. log-probability of i = x[i] - this. */
    float (*log_sum_exp)(const float *x, uint32_t n);
};

#define GEMMS_MAX 8u /* products in one call */

/* What the set's gemm_workspace_bytes says; 0 if it has none. */
size_t gemm_workspace_bytes(const struct kernels *kernels, uint32_t n_tokens, uint32_t n_in);
