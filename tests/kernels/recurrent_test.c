/* recurrent: every set computes the formulas of kernels/recurrent.h, as float64 does, with rows apart and in place, and
 * leaves gaps and sequences without rows alone. */
#include "kernels/recurrent.h"
#include "tests/kernels/support/rows.h"
#include "tests/runner/one_thread.h"

#include <math.h>

TestSuite(recurrent, .description = ONE_THREAD);

enum { N_SEQUENCES = 4, N_ROWS = 14, HEADS_MAX = 6 };

static const uint32_t lens[N_SEQUENCES] = {5, 0, 1, 8};

/* States of any content; that of the sequence without rows is NaN. */
struct states {
    struct guarded memory[N_SEQUENCES];
    float *states[N_SEQUENCES];
    size_t n;
};

static struct states states_create(size_t n, float size)
{
    struct states states = {.n = n};
    for (uint32_t s = 0; s < N_SEQUENCES; s++) {
        states.memory[s] = guarded_create(n * sizeof(float));
        states.states[s] = states.memory[s].data;
        for (size_t i = 0; i < n && lens[s] > 0; i++)
            states.states[s][i] = size * values_at(77 + s, 0, i);
    }
    return states;
}

static void states_destroy(struct states *states)
{
    for (uint32_t s = 0; s < N_SEQUENCES; s++)
        guarded_destroy(&states->memory[s]);
}

static void assert_untouched(const struct states *states, const char *name)
{
    for (uint32_t s = 0; s < N_SEQUENCES; s++)
        for (size_t i = 0; i < states->n && lens[s] == 0; i++)
            cr_assert(isnan(states->states[s][i]), "%s: sequence %u has no rows", name, s);
}

static void assert_near(double got, double expected, double error, const char *what)
{
    cr_assert(fabs(got - expected) <= error * fmax(1, fabs(expected)), "%s: %.9g, not %.9g", what,
              got, expected);
}

static struct guarded weights_create(enum dtype dtype, uint32_t n, uint64_t seed)
{
    struct guarded weights = guarded_create(n * dtype_bytes(dtype));
    for (uint32_t i = 0; i < n; i++)
        dtype_store(dtype, weights.data, i, values_at(seed, 0, i));
    return weights;
}

static double silu(double x)
{
    return x / (1 + exp(-x));
}

/* ---- causal_conv ---- */

struct conv_case {
    uint32_t n_channels, width;
    enum dtype dtype;
    bool has_bias;
};

/* Row t of a sequence whose state was `state`; t may be negative. */
static double conv_row(const struct causal_conv *conv, const float *x, const float *state, int t,
                       uint32_t channel)
{
    if (t >= 0)
        return (double)x[(size_t)t * conv->x_stride + channel];
    return (double)state[((int)conv->width - 1 + t) * (int)conv->n_channels + (int)channel];
}

static void assert_conv(const struct causal_conv *conv, const struct states *before,
                        const char *name)
{
    const int n_before = (int)conv->width - 1;
    const float *x = conv->x, *y = conv->y;
    for (uint32_t s = 0; s < N_SEQUENCES; s++)
        for (uint32_t c = 0; c < conv->n_channels; c++) {
            const float *state = before->states[s];
            for (int t = 0; t < (int)lens[s]; t++) {
                double sum = conv->bias ? (double)dtype_load(conv->bias_dtype, conv->bias, c) : 0;
                for (int j = 0; j <= n_before; j++)
                    sum += (double)dtype_load(conv->w_dtype, conv->w,
                                              (size_t)c * conv->width + (size_t)j) *
                           conv_row(conv, x, state, t - n_before + j, c);
                assert_near((double)y[(size_t)t * conv->y_stride + c], silu(sum), 2e-6, name);
            }
            for (int j = 0; j < n_before && lens[s] > 0; j++)
                cr_assert_eq((double)conv->states[s][j * (int)conv->n_channels + (int)c],
                             conv_row(conv, x, state, (int)lens[s] - n_before + j, c),
                             "%s: sequence %u, row %d of the state", name, s, j);
            if (c + 1 == conv->n_channels) {
                x += lens[s] * conv->x_stride;
                y += lens[s] * conv->y_stride;
            }
        }
}

static void check_conv(const struct kernels *kernels, const struct conv_case *c)
{
    const size_t n_state = (size_t)(c->width - 1) * c->n_channels;
    struct guarded w = weights_create(c->dtype, c->n_channels * c->width, 2);
    struct guarded bias = weights_create(c->dtype, c->n_channels, 3);
    struct rows x = rows_random(N_ROWS, c->n_channels, 1), y = rows_create(N_ROWS, c->n_channels);
    struct states before = states_create(n_state, 1), states = states_create(n_state, 1);
    struct causal_conv conv = {.x = x.data,
                               .x_stride = x.stride,
                               .w = w.data,
                               .w_dtype = c->dtype,
                               .bias = c->has_bias ? bias.data : NULL,
                               .bias_dtype = c->dtype,
                               .y = y.data,
                               .y_stride = y.stride,
                               .n_channels = c->n_channels,
                               .width = c->width,
                               .n_sequences = N_SEQUENCES,
                               .lens = lens,
                               .states = states.states};
    struct error error = {""};
    cr_assert_eq(causal_conv_check(&conv, &error), STATUS_OK, "%s", error.text);
    kernels->causal_conv(NULL, &conv);
    assert_conv(&conv, &before, kernels->name);
    assert_untouched(&states, kernels->name);
    rows_assert_gaps(&y, kernels->name);
    states_destroy(&before);
    states_destroy(&states);
    rows_destroy(&x);
    rows_destroy(&y);
    guarded_destroy(&w);
    guarded_destroy(&bias);
}

Test(recurrent, a_causal_convolution_is_its_formula_and_moves_its_state_on)
{
    static const uint32_t channels[] = {1, 8, 16, 17, 63, 64, 65, 200}, widths[] = {2, 4, 8};
    const struct kernels *list[KERNELS_MAX];
    const uint32_t n_list = kernels_list(list, KERNELS_MAX);
    for (uint32_t k = 0; k < n_list; k++)
        for (size_t n = 0; n < COUNT(channels); n++)
            for (size_t w = 0; w < COUNT(widths); w++)
                check_conv(list[k], &(struct conv_case){channels[n], widths[w],
                                                        (enum dtype)((n + w) % 3), n % 2 == 0});
}

/* ---- delta_gate ---- */

static void check_gate(const struct kernels *kernels, uint32_t n_heads, bool in_place)
{
    struct guarded a_log = weights_create(DTYPE_F32, n_heads, 4);
    struct guarded dt_bias = weights_create(DTYPE_BF16, n_heads, 5);
    struct rows a = rows_random(N_ROWS, n_heads, 1), b = rows_random(N_ROWS, n_heads, 2);
    struct rows decay = rows_create(N_ROWS, n_heads), beta = rows_create(N_ROWS, n_heads);
    struct rows a_kept = rows_random(N_ROWS, n_heads, 1), b_kept = rows_random(N_ROWS, n_heads, 2);
    const struct rows *decays = in_place ? &a : &decay, *betas = in_place ? &b : &beta;
    a.data[0] = a_kept.data[0] = 60; /* softplus(x) is x, and its exponential nothing */
    a.data[a.stride] = a_kept.data[a.stride] = -200;
    struct delta_gate gate = {.a = a.data,
                              .b = b.data,
                              .a_stride = a.stride,
                              .b_stride = b.stride,
                              .a_log = a_log.data,
                              .dt_bias = dt_bias.data,
                              .a_log_dtype = DTYPE_F32,
                              .dt_bias_dtype = DTYPE_BF16,
                              .decay = decays->data,
                              .beta = betas->data,
                              .decay_stride = decays->stride,
                              .beta_stride = betas->stride,
                              .n_rows = N_ROWS,
                              .n_heads = n_heads};
    struct error error = {""};
    cr_assert_eq(delta_gate_check(&gate, &error), STATUS_OK, "%s", error.text);
    kernels->delta_gate(NULL, &gate);
    for (uint32_t t = 0; t < N_ROWS; t++)
        for (uint32_t h = 0; h < n_heads; h++) {
            double step = (double)a_kept.data[t * a.stride + h] +
                          (double)dtype_load(DTYPE_BF16, dt_bias.data, h);
            double rate = exp((double)dtype_load(DTYPE_F32, a_log.data, h));
            double g = -rate * (step > 30 ? step : log1p(exp(step)));
            double open = 1 / (1 + exp(-(double)b_kept.data[t * b.stride + h]));
            assert_near((double)decays->data[t * decays->stride + h], exp(g), 1e-6, kernels->name);
            assert_near((double)betas->data[t * betas->stride + h], open, 1e-6, kernels->name);
        }
    rows_assert_gaps(decays, kernels->name);
    rows_assert_gaps(betas, kernels->name);
    struct rows *all[] = {&a, &b, &decay, &beta, &a_kept, &b_kept};
    for (size_t i = 0; i < COUNT(all); i++)
        rows_destroy(all[i]);
    guarded_destroy(&a_log);
    guarded_destroy(&dt_bias);
}

Test(recurrent, the_gates_of_the_delta_rule_are_their_formula)
{
    static const uint32_t heads[] = {1, 8, 16, 17, 48};
    const struct kernels *list[KERNELS_MAX];
    const uint32_t n_list = kernels_list(list, KERNELS_MAX);
    for (uint32_t k = 0; k < n_list; k++)
        for (size_t h = 0; h < COUNT(heads); h++) {
            check_gate(list[k], heads[h], false);
            check_gate(list[k], heads[h], true);
        }
}

/* ---- delta_rule ---- */

struct rule_case {
    uint32_t n_heads, n_key_heads, key_dim, value_dim;
    float scale;
    bool are_tiled;
};

static void unit(const float *x, uint32_t n, double eps, double factor, double *unit_out)
{
    double squares = eps;
    for (uint32_t i = 0; i < n; i++)
        squares += (double)x[i] * (double)x[i];
    for (uint32_t i = 0; i < n; i++)
        unit_out[i] = factor * (double)x[i] / sqrt(squares);
}

/* One head of one row, as the paper writes it: the state is float64. */
static void rule_step(const struct delta_rule *rule, uint64_t row, uint32_t head, double *state,
                      double *o_out)
{
    const uint32_t n_keys = rule->key_dim, n_values = rule->value_dim;
    const uint32_t key_head = rule->heads_are_tiled ? head % rule->n_key_heads
                                                    : head * rule->n_key_heads / rule->n_heads;
    const double decay = (double)rule->decay[row * rule->decay_stride + head];
    const double beta = (double)rule->beta[row * rule->beta_stride + head];
    const double scale = rule->scale > 0 ? (double)rule->scale : pow(n_keys, -0.5);
    double q[DELTA_DIM_MAX], k[DELTA_DIM_MAX];
    unit(rule->q + row * rule->q_stride + key_head * n_keys, n_keys, (double)rule->norm_eps, scale,
         q);
    unit(rule->k + row * rule->k_stride + key_head * n_keys, n_keys, (double)rule->norm_eps, 1, k);
    for (uint32_t j = 0; j < n_values; j++) {
        double known = 0;
        for (uint32_t i = 0; i < n_keys; i++) {
            state[i * n_values + j] *= decay;
            known += state[i * n_values + j] * k[i];
        }
        const double v = (double)rule->v[row * rule->v_stride + head * n_values + j];
        o_out[j] = 0;
        for (uint32_t i = 0; i < n_keys; i++) {
            state[i * n_values + j] += k[i] * beta * (v - known);
            o_out[j] += state[i * n_values + j] * q[i];
        }
    }
}

static void assert_rule(const struct delta_rule *rule, const float *o, const struct states *before,
                        const char *name)
{
    static double state[DELTA_DIM_MAX * DELTA_DIM_MAX];
    const uint32_t n_values = rule->value_dim;
    const size_t n_state = (size_t)rule->key_dim * n_values;
    uint64_t first = 0;
    for (uint32_t s = 0; s < N_SEQUENCES; first += lens[s++])
        for (uint32_t h = 0; h < rule->n_heads && lens[s] > 0; h++) {
            double expected[DELTA_DIM_MAX];
            for (size_t i = 0; i < n_state; i++)
                state[i] = (double)before->states[s][h * n_state + i];
            for (uint64_t t = first; t < first + lens[s]; t++) {
                rule_step(rule, t, h, state, expected);
                for (uint32_t j = 0; j < n_values; j++)
                    assert_near((double)o[t * rule->o_stride + h * n_values + j], expected[j], 5e-6,
                                name);
            }
            for (size_t i = 0; i < n_state; i++)
                assert_near((double)rule->states[s * rule->n_heads + h][i], state[i], 5e-6, name);
        }
}

static void check_rule(const struct kernels *kernels, const struct rule_case *c, bool in_place)
{
    const uint32_t n_keys = c->n_key_heads * c->key_dim, n_values = c->n_heads * c->value_dim;
    const size_t n_state = (size_t)c->n_heads * c->key_dim * c->value_dim;
    struct rows q = rows_random(N_ROWS, n_keys, 1), k = rows_random(N_ROWS, n_keys, 2);
    struct rows v = rows_random(N_ROWS, n_values, 3), kept = rows_random(N_ROWS, n_values, 3);
    struct rows o = rows_create(N_ROWS, n_values);
    struct rows decay = rows_random(N_ROWS, c->n_heads, 4),
                beta = rows_random(N_ROWS, c->n_heads, 5);
    struct states before = states_create(n_state, 0.5f), states = states_create(n_state, 0.5f);
    float *heads[N_SEQUENCES * HEADS_MAX];
    cr_assert_leq(c->n_heads, HEADS_MAX);
    for (uint32_t i = 0; i < N_SEQUENCES * c->n_heads; i++)
        heads[i] = states.states[i / c->n_heads] + i % c->n_heads * (n_state / c->n_heads);
    for (uint32_t t = 0; t < N_ROWS; t++)
        for (uint32_t h = 0; h < c->n_heads; h++) {
            decay.data[t * decay.stride + h] = 1 / (1 + fabsf(decay.data[t * decay.stride + h]));
            beta.data[t * beta.stride + h] = 1 / (1 + fabsf(beta.data[t * beta.stride + h]));
        }
    struct delta_rule rule = {.q = q.data,
                              .k = k.data,
                              .v = v.data,
                              .q_stride = q.stride,
                              .k_stride = k.stride,
                              .v_stride = v.stride,
                              .decay = decay.data,
                              .beta = beta.data,
                              .decay_stride = decay.stride,
                              .beta_stride = beta.stride,
                              .o = in_place ? v.data : o.data,
                              .o_stride = in_place ? v.stride : o.stride,
                              .n_heads = c->n_heads,
                              .n_key_heads = c->n_key_heads,
                              .key_dim = c->key_dim,
                              .value_dim = c->value_dim,
                              .scale = c->scale,
                              .norm_eps = 1e-6f,
                              .n_sequences = N_SEQUENCES,
                              .lens = lens,
                              .states = heads,
                              .heads_are_tiled = c->are_tiled};
    struct error error = {""};
    cr_assert_eq(delta_rule_check(&rule, &error), STATUS_OK, "%s", error.text);
    kernels->delta_rule(NULL, &rule);
    rule.v = kept.data;
    assert_rule(&rule, rule.o, &before, kernels->name);
    assert_untouched(&states, kernels->name);
    rows_assert_gaps(in_place ? &v : &o, kernels->name);
    struct rows *all[] = {&q, &k, &v, &kept, &o, &decay, &beta};
    for (size_t i = 0; i < COUNT(all); i++)
        rows_destroy(all[i]);
    states_destroy(&before);
    states_destroy(&states);
}

Test(recurrent, the_delta_rule_is_its_formula_and_moves_its_state_on)
{
    static const struct rule_case cases[] = {
        {1, 1, 8, 8, 0, false},     {2, 1, 16, 24, 0, false},    {4, 2, 24, 32, 0.3f, false},
        {3, 3, 40, 40, 0, false},   {6, 2, 64, 56, 0.1f, false}, {2, 2, 128, 64, 0, false},
        {2, 1, 128, 128, 0, false}, {1, 1, 256, 256, 0, false},  {4, 2, 24, 32, 0.3f, true},
        {6, 2, 16, 8, 0, true},     {6, 3, 16, 24, 0, true},
    };
    const struct kernels *list[KERNELS_MAX];
    const uint32_t n_list = kernels_list(list, KERNELS_MAX);
    for (uint32_t k = 0; k < n_list; k++)
        for (size_t c = 0; c < COUNT(cases); c++) {
            check_rule(list[k], &cases[c], false);
            check_rule(list[k], &cases[c], true);
        }
}

/* ---- gated_norm ---- */

static void check_norm(const struct kernels *kernels, uint32_t n_heads, uint32_t n,
                       enum dtype dtype)
{
    struct guarded w = weights_create(dtype, n, 6);
    struct rows x = rows_random(N_ROWS, n_heads * n, 1), z = rows_random(N_ROWS, n_heads * n, 2);
    struct rows y = rows_create(N_ROWS, n_heads * n);
    struct gated_norm norm = {.x = x.data,
                              .z = z.data,
                              .x_stride = x.stride,
                              .z_stride = z.stride,
                              .w = w.data,
                              .w_dtype = dtype,
                              .y = y.data,
                              .y_stride = y.stride,
                              .n_rows = N_ROWS,
                              .n_heads = n_heads,
                              .n = n,
                              .eps = 1e-6f};
    struct error error = {""};
    cr_assert_eq(gated_norm_check(&norm, &error), STATUS_OK, "%s", error.text);
    kernels->gated_norm(NULL, &norm);
    for (uint32_t t = 0; t < N_ROWS; t++)
        for (uint32_t h = 0; h < n_heads; h++) {
            const float *row = x.data + t * x.stride + h * n;
            double squares = 0;
            for (uint32_t i = 0; i < n; i++)
                squares += (double)row[i] * (double)row[i];
            for (uint32_t i = 0; i < n; i++)
                assert_near((double)y.data[t * y.stride + h * n + i],
                            (double)dtype_load(dtype, w.data, i) * (double)row[i] /
                                sqrt(squares / n + 1e-6) *
                                silu((double)z.data[t * z.stride + h * n + i]),
                            2e-6, kernels->name);
        }
    rows_assert_gaps(&y, kernels->name);
    norm.y = z.data;
    norm.y_stride = z.stride;
    kernels->gated_norm(NULL, &norm);
    rows_assert_equal(&z, &y, "in place of z");
    rows_destroy(&x);
    rows_destroy(&y);
    rows_destroy(&z);
    guarded_destroy(&w);
}

Test(recurrent, a_gated_norm_is_its_formula)
{
    static const uint32_t sizes[] = {1, 8, 15, 16, 40, 128};
    const struct kernels *list[KERNELS_MAX];
    const uint32_t n_list = kernels_list(list, KERNELS_MAX);
    for (uint32_t k = 0; k < n_list; k++)
        for (size_t n = 0; n < COUNT(sizes); n++)
            check_norm(list[k], 1 + (uint32_t)n % 3, sizes[n], (enum dtype)(n % 3));
}
