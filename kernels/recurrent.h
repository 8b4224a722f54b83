/*
 * recurrent - the operators of a layer with recurrent state: gated DeltaNet.
 *
 * A sequence has a state of fixed size in place of keys and values. A layer of Qwen3-Next and Qwen3.5 computes
 *
 *     q | k | v   = causal_conv(x W_qkv)
 *     decay, beta = delta_gate(x W_a, x W_b)
 *     o           = delta_rule(q, k, v, decay, beta)
 *     y           = gated_norm(o, x W_z) W_out
 *
 * (Yang, Kautz, Hatamizadeh 2024, Gated Delta Networks, arXiv 2412.06464, section 3; causal convolution and gates as in Mamba,
 * Gu and Dao 2023, 2312.00752.)
 *
 * causal_conv and delta_rule take a packed batch: lens[s] rows of sequence s follow those of sequence s - 1. A sequence with 0
 * rows is not touched. States are the caller's memory; zeros are a sequence that has not begun, and those of one that begins count as
 * zeros, whatever they are. Afterwards they are the states behind the last row. No two sequences share one, and each head's is a matrix of its own, so that it fits into a block of a cache.
 *
 * Rows are computed one after another, in one order of operations. So the bits of a row and of a state depend on the sequence's own
 * rows alone, not on how these were divided into calls, on other sequences or on threads, and all sets with equal bits
 * (kernels.h) agree. A row that has a NaN leaves it in the state: it stays in this sequence.
 *
 * Inputs, outputs and states are float32. Weights have any alignment.
 *
 * Thread: as kernel_set.h.
 */
#pragma once

#include "base/status.h"
#include "kernels/dtype.h"

#include <stdbool.h>
#include <stdint.h>

#define CONV_WIDTH_MAX 8u
#define DELTA_DIM_MAX  256u /* of key_dim and value_dim */

/* y[t][c] = silu(bias[c] + sum over j of w[c][j] x[t - width + 1 + j][c]), j in order. Rows before the first one are those of the
 * state. */
struct causal_conv {
    const float *x;    /* [n_rows][n_channels] */
    uint64_t x_stride; /* elements, row to row */
    const void *w;     /* [n_channels][width] */
    enum dtype w_dtype;
    const void *bias; /* [n_channels]; NULL: none */
    enum dtype bias_dtype;
    float *y; /* [n_rows][n_channels]; does not overlap x */
    uint64_t y_stride;
    uint32_t n_channels;
    uint32_t width; /* from 2 to CONV_WIDTH_MAX */
    uint32_t n_sequences;
    const uint32_t *lens; /* [n_sequences] */
    const bool *begins;   /* [n_sequences]; NULL: none begins */
    float *const
        *states; /* [n_sequences]: [width - 1][n_channels], the last rows of x, the oldest first */
};

/* decay[t][h] = exp(-exp(a_log[h]) softplus(a[t][h] + dt_bias[h])), beta[t][h] = 1 / (1 + exp(-b[t][h])). */
struct delta_gate {
    const float *a, *b; /* [n_rows][n_heads] */
    uint64_t a_stride, b_stride;
    const void *a_log, *dt_bias; /* [n_heads] */
    enum dtype a_log_dtype, dt_bias_dtype;
    float *decay, *beta; /* [n_rows][n_heads]; may be a and b, in this order, with their strides */
    uint64_t decay_stride, beta_stride;
    uint32_t n_rows, n_heads;
};

/* For each row, with the key head i of a head h: h / (n_heads / n_key_heads), or h % n_key_heads if heads are tiled:
 *
 *     q', k' = q[i] scale / |q[i]|, k[i] / |k[i]|            |x| = sqrt(sum of x^2 + norm_eps)
 *     d      = beta[h] (v[h] - decay[h] S^T k')
 *     S      = decay[h] S + k' d^T
 *     o[h]   = S^T q'
 */
struct delta_rule {
    const float *q, *k; /* [n_rows][n_key_heads][key_dim] */
    const float *v;     /* [n_rows][n_heads][value_dim] */
    uint64_t q_stride, k_stride, v_stride;
    const float *decay, *beta; /* [n_rows][n_heads] */
    uint64_t decay_stride, beta_stride;
    float *o; /* [n_rows][n_heads][value_dim]; may be v, with its stride, else overlaps nothing */
    uint64_t o_stride;
    uint32_t n_heads, n_key_heads; /* n_heads is a multiple of n_key_heads */
    uint32_t key_dim, value_dim;   /* multiples of 8 up to DELTA_DIM_MAX */
    float scale;                   /* of q; 0: 1 / sqrt(key_dim) */
    float norm_eps;
    uint32_t n_sequences;
    const uint32_t *lens; /* [n_sequences] */
    const bool *begins;   /* [n_sequences]; NULL: none begins */
    float *const *states; /* [n_sequences][n_heads]: S, [key_dim][value_dim] */
    bool heads_are_tiled; /* else those of a key head are side by side */
};

static inline uint32_t delta_rule_key_head(const struct delta_rule *rule, uint32_t head)
{
    return rule->heads_are_tiled ? head % rule->n_key_heads
                                 : head / (rule->n_heads / rule->n_key_heads);
}

/* y[t][h] = w x[t][h] / sqrt(mean(x[t][h]^2) + eps) silu(z[t][h]). */
struct gated_norm {
    const float *x, *z; /* [n_rows][n_heads][n] */
    uint64_t x_stride, z_stride;
    const void *w; /* [n], the same for all heads */
    enum dtype w_dtype;
    float *y; /* [n_rows][n_heads][n]; may be x or z, with its stride */
    uint64_t y_stride;
    uint32_t n_rows, n_heads, n;
    float eps;
};

/* The caller checks once, before the operator runs. INVALID_ARGUMENT, with a sentence: an array is missing, a size, stride, dtype or
 * number is not supported, or rows overlap. */
MUST_CHECK enum status causal_conv_check(const struct causal_conv *conv, struct error *error);
MUST_CHECK enum status delta_gate_check(const struct delta_gate *gate, struct error *error);
MUST_CHECK enum status delta_rule_check(const struct delta_rule *rule, struct error *error);
MUST_CHECK enum status gated_norm_check(const struct gated_norm *norm, struct error *error);
