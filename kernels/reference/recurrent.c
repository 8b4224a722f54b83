#include "kernels/reference/recurrent.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* ---- causal_conv ---- */

/* One channel: its row of the state moves on by one. */
static double conv_next(const struct causal_conv *conv, float *state, uint32_t channel, float x)
{
    const uint32_t n_before = conv->width - 1;
    const size_t first = (size_t)channel * conv->width;
    double sum = conv->bias ? (double)dtype_load(conv->bias_dtype, conv->bias, channel) : 0;
    for (uint32_t j = 0; j < conv->width; j++) {
        float before = j < n_before ? state[(size_t)j * conv->n_channels + channel] : x;
        sum += (double)dtype_load(conv->w_dtype, conv->w, first + j) * (double)before;
    }
    for (uint32_t j = 0; j + 1 < n_before; j++)
        state[(size_t)j * conv->n_channels + channel] =
            state[(size_t)(j + 1) * conv->n_channels + channel];
    state[(size_t)(n_before - 1) * conv->n_channels + channel] = x;
    return sum * sigmoid(sum);
}

void reference_causal_conv(struct thread_pool *pool, const struct causal_conv *conv)
{
    (void)pool;
    uint64_t row = 0;
    for (uint32_t s = 0; s < conv->n_sequences; s++) {
        if (conv->begins && conv->begins[s] && conv->lens[s] > 0)
            memset(conv->states[s], 0,
                   (size_t)(conv->width - 1) * conv->n_channels * sizeof **conv->states);
        for (uint32_t t = 0; t < conv->lens[s]; t++, row++)
            for (uint32_t c = 0; c < conv->n_channels; c++)
                conv->y[row * conv->y_stride + c] = (float)conv_next(
                    conv, conv->states[s], c, conv->x[row * conv->x_stride + c]);
    }
}

/* ---- delta_gate ---- */

void reference_delta_gate(struct thread_pool *pool, const struct delta_gate *gate)
{
    (void)pool;
    for (uint32_t t = 0; t < gate->n_rows; t++)
        for (uint32_t h = 0; h < gate->n_heads; h++) {
            double rate = exp((double)dtype_load(gate->a_log_dtype, gate->a_log, h));
            double step = (double)gate->a[t * gate->a_stride + h] +
                          (double)dtype_load(gate->dt_bias_dtype, gate->dt_bias, h);
            double softplus = (step < 0 ? 0 : step) + log1p(exp(-fabs(step)));
            double b = (double)gate->b[t * gate->b_stride + h];
            gate->decay[t * gate->decay_stride + h] = (float)exp(-rate * softplus);
            gate->beta[t * gate->beta_stride + h] = (float)sigmoid(b);
        }
}

/* ---- delta_rule ---- */

static void normalise(const float *x, uint32_t n, double eps, double factor, double *unit_out)
{
    double squares = 0;
    for (uint32_t i = 0; i < n; i++)
        squares += (double)x[i] * (double)x[i];
    for (uint32_t i = 0; i < n; i++)
        unit_out[i] = (double)x[i] * factor / sqrt(squares + eps);
}

/* One head of one row. */
static void delta_next(const struct delta_rule *rule, uint64_t row, uint32_t head, float *state)
{
    const uint32_t n_keys = rule->key_dim, n_values = rule->value_dim;
    const uint32_t key_head = delta_rule_key_head(rule, head);
    const double decay = (double)rule->decay[row * rule->decay_stride + head];
    const double beta = (double)rule->beta[row * rule->beta_stride + head];
    const float *v = rule->v + row * rule->v_stride + (size_t)head * n_values;
    float *o = rule->o + row * rule->o_stride + (size_t)head * n_values;
    double scale = rule->scale > 0 ? (double)rule->scale : 1 / sqrt(n_keys);
    double q[DELTA_DIM_MAX], k[DELTA_DIM_MAX];
    normalise(rule->q + row * rule->q_stride + (size_t)key_head * n_keys, n_keys,
              (double)rule->norm_eps, scale, q);
    normalise(rule->k + row * rule->k_stride + (size_t)key_head * n_keys, n_keys,
              (double)rule->norm_eps, 1, k);
    for (uint32_t j = 0; j < n_values; j++) {
        double known = 0, sum = 0;
        for (uint32_t i = 0; i < n_keys; i++)
            known += decay * (double)state[(size_t)i * n_values + j] * k[i];
        double delta = beta * ((double)v[j] - known);
        for (uint32_t i = 0; i < n_keys; i++) {
            double next = decay * (double)state[(size_t)i * n_values + j] + k[i] * delta;
            state[(size_t)i * n_values + j] = (float)next;
            sum += next * q[i];
        }
        o[j] = (float)sum;
    }
}

void reference_delta_rule(struct thread_pool *pool, const struct delta_rule *rule)
{
    (void)pool;
    uint64_t row = 0;
    assert(rule->key_dim <= DELTA_DIM_MAX);
    for (uint32_t s = 0; s < rule->n_sequences; s++)
        for (uint32_t t = 0; t < rule->lens[s]; t++, row++)
            for (uint32_t h = 0; h < rule->n_heads; h++) {
                float *state = rule->states[(size_t)s * rule->n_heads + h];
                if (t == 0 && rule->begins && rule->begins[s])
                    memset(state, 0, (size_t)rule->key_dim * rule->value_dim * sizeof *state);
                delta_next(rule, row, h, state);
            }
}

/* ---- gated_norm ---- */

void reference_gated_norm(struct thread_pool *pool, const struct gated_norm *norm)
{
    (void)pool;
    for (uint32_t t = 0; t < norm->n_rows; t++)
        for (uint32_t h = 0; h < norm->n_heads; h++) {
            const float *x = norm->x + t * norm->x_stride + (size_t)h * norm->n;
            const float *z = norm->z + t * norm->z_stride + (size_t)h * norm->n;
            float *y = norm->y + t * norm->y_stride + (size_t)h * norm->n;
            double squares = 0;
            for (uint32_t i = 0; i < norm->n; i++)
                squares += (double)x[i] * (double)x[i];
            double factor = 1 / sqrt(squares / norm->n + (double)norm->eps);
            for (uint32_t i = 0; i < norm->n; i++) {
                double w = (double)dtype_load(norm->w_dtype, norm->w, i);
                double gate = (double)z[i] * sigmoid((double)z[i]);
                y[i] = (float)(w * (double)x[i] * factor * gate);
            }
        }
}
