#include "kernels/reference/reference.h"

#include "kernels/blocks.h"
#include "kernels/reference/attention.h"
#include "kernels/reference/gemm.h"
#include "kernels/reference/latent.h"
#include "kernels/reference/moe.h"
#include "kernels/reference/recurrent.h"

#include <assert.h>
#include <math.h>

static void rms_norm(struct thread_pool *pool, const struct rms_norm *norm)
{
    (void)pool;
    assert(norm->x_dtype == DTYPE_F32 && norm->y_dtype == DTYPE_F32);
    for (uint32_t token = 0; token < norm->n_tokens; token++) {
        const float *x = (const float *)norm->x + token * norm->x_stride;
        float *y = (float *)norm->y + token * norm->y_stride;
        double squares = 0;
        for (uint32_t i = 0; i < norm->n; i++)
            squares += (double)x[i] * (double)x[i];
        double factor = 1 / sqrt(squares / norm->n + (double)norm->eps);
        for (uint32_t i = 0; i < norm->n; i++) {
            double w = norm->w ? (double)dtype_load(norm->w_dtype, norm->w, i) : 1;
            if (norm->w && norm->is_unit_offset)
                w += 1;
            y[i] = (float)((double)x[i] * factor * w);
        }
    }
}

static void layer_norm(struct thread_pool *pool, const struct layer_norm *norm)
{
    (void)pool;
    assert(norm->x_dtype == DTYPE_F32 && norm->y_dtype == DTYPE_F32);
    for (uint32_t token = 0; token < norm->n_tokens; token++) {
        const float *x = (const float *)norm->x + token * norm->x_stride;
        float *y = (float *)norm->y + token * norm->y_stride;
        double sum = 0, squares = 0;
        for (uint32_t i = 0; i < norm->n; i++)
            sum += (double)x[i];
        double mean = sum / norm->n;
        for (uint32_t i = 0; i < norm->n; i++)
            squares += ((double)x[i] - mean) * ((double)x[i] - mean);
        double factor = 1 / sqrt(squares / norm->n + (double)norm->eps);
        for (uint32_t i = 0; i < norm->n; i++) {
            double w = norm->w ? (double)dtype_load(norm->w_dtype, norm->w, i) : 1;
            double bias = norm->bias ? (double)dtype_load(norm->bias_dtype, norm->bias, i) : 0;
            y[i] = (float)(((double)x[i] - mean) * factor * w + bias);
        }
    }
}

static double activate(enum activation activation, double x, double alpha)
{
    const double pi = acos(-1);
    switch (activation) {
    case ACTIVATION_SILU:
        return x / (1 + exp(-alpha * x));
    case ACTIVATION_GELU: /* 1 + erf(x) = erfc(-x), which does not cancel */
        return x * erfc(-x / sqrt(2)) / 2;
    case ACTIVATION_GELU_TANH:
        return x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x * x * x))) / 2;
    case ACTIVATION_RELU:
        return x < 0 ? 0 : x;
    case ACTIVATION_SIGMOID:
        return 1 / (1 + exp(-alpha * x));
    }
    assert(false);
    return NAN;
}

static double clamp(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x; /* NaN stays NaN */
}

static void gated(struct thread_pool *pool, const struct gated *gated)
{
    (void)pool;
    double limit = gated->limit > 0 ? (double)gated->limit : INFINITY;
    double alpha = gated->alpha > 0 ? (double)gated->alpha : 1;
    assert(gated->dtype == DTYPE_F32);
    for (uint32_t token = 0; token < gated->n_tokens; token++)
        for (uint32_t i = 0; i < gated->n; i++) {
            double gate = (double)((const float *)gated->gate)[token * gated->gate_stride + i];
            double y = activate(gated->activation, clamp(gate, -INFINITY, limit), alpha);
            if (gated->up) {
                double up = (double)((const float *)gated->up)[token * gated->up_stride + i];
                y *= clamp(up, -limit, limit) + (double)gated->beta;
            }
            ((float *)gated->y)[token * gated->y_stride + i] = (float)y;
        }
}

static void embedding(struct thread_pool *pool, const struct embedding *embedding)
{
    (void)pool;
    assert(embedding->y_dtype == DTYPE_F32);
    for (uint32_t token = 0; token < embedding->n_tokens; token++) {
        float *y = (float *)embedding->y + token * embedding->y_stride;
        assert(embedding->ids[token] < embedding->n_rows);
        size_t first = (size_t)embedding->ids[token] * embedding->n;
        for (uint32_t i = 0; i < embedding->n; i++)
            y[i] = dtype_is_blocks(embedding->dtype)
                       ? block_element(embedding->dtype, embedding->table, first + i)
                       : dtype_load(embedding->dtype, embedding->table, first + i);
    }
}

static void add(float *y, const float *x, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        y[i] += x[i];
}

static void scaled_add(struct thread_pool *pool, const struct scaled_add *scaled_add)
{
    (void)pool;
    for (uint32_t token = 0; token < scaled_add->n_tokens; token++)
        for (uint32_t i = 0; i < scaled_add->n; i++)
            scaled_add->y[token * scaled_add->y_stride + i] +=
                scaled_add->scale * scaled_add->x[token * scaled_add->x_stride + i];
}

static void scale(struct thread_pool *pool, const struct scale *scale)
{
    (void)pool;
    for (uint32_t token = 0; token < scale->n_tokens; token++)
        for (uint32_t i = 0; i < scale->n; i++) {
            float *x = scale->x + token * scale->x_stride + i;
            double cap = (double)scale->soft_cap;
            *x *= scale->scale;
            if (scale->soft_cap != 0)
                *x = (float)(cap * tanh((double)*x / cap));
        }
}

static uint32_t argmax(const float *x, uint32_t n)
{
    uint32_t best = 0;
    assert(n > 0);
    for (uint32_t i = 1; i < n; i++)
        if (x[i] > x[best] || (isnan(x[best]) && !isnan(x[i])))
            best = i;
    return best;
}

static float log_sum_exp(const float *x, uint32_t n)
{
    double largest = (double)x[argmax(x, n)];
    double sum = 0;
    if (!isfinite(largest))
        return (float)largest;
    for (uint32_t i = 0; i < n; i++)
        sum += exp((double)x[i] - largest);
    return (float)(largest + log(sum));
}

const struct kernels kernels_reference = {
    .name = "reference",
    .attention = &reference_attention,
    .moe = &reference_moe,
    .latent = &reference_latent,
    .gemm = reference_gemm,
    .rms_norm = rms_norm,
    .layer_norm = layer_norm,
    .gated = gated,
    .rotary = reference_rotary,
    .kv_update = reference_kv_update,
    .causal_conv = reference_causal_conv,
    .delta_gate = reference_delta_gate,
    .delta_rule = reference_delta_rule,
    .gated_norm = reference_gated_norm,
    .embedding = embedding,
    .add = add,
    .scaled_add = scaled_add,
    .scale = scale,
    .argmax = argmax,
    .log_sum_exp = log_sum_exp,
};
