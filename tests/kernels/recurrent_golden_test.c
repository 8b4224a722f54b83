/* recurrent: the gated DeltaNet layers of Qwen3.5 and Qwen3-Next as Transformers computes them (tests/golden/state), on every
 * implementation, in one call and in several. */
#include "kernels/kernels.h"
#include "kernels/recurrent.h"
#include "tests/kernels/support/floats.h"
#include "tests/kernels/support/values.h"
#include "tests/runner/one_thread.h"

#include <string.h>

TestSuite(recurrent_golden, .description = ONE_THREAD);

enum {
    TOKENS = 70,
    HIDDEN = 24,
    N_HEADS = 4,
    N_KEY_HEADS = 2,
    KEY_DIM = 16,
    VALUE_DIM = 8,
    WIDTH = 4,
    N_KEYS = N_KEY_HEADS * KEY_DIM,
    N_VALUES = N_HEADS * VALUE_DIM,
    N_CHANNELS = 2 * N_KEYS + N_VALUES,
};

struct layer {
    const struct kernels *kernels;
    const float *w_qkv, *w_z, *w_b, *w_a, *w_conv, *a_log, *dt_bias, *w_norm, *w_out;
    float conv[(WIDTH - 1) * N_CHANNELS], state[N_HEADS * KEY_DIM * VALUE_DIM];
};

static void multiply(const struct layer *layer, const float *x, uint32_t n_tokens, uint32_t n_in,
                     const float *w, uint32_t n_out, float *y)
{
    struct gemm gemm = {.x = x,
                        .x_stride = n_in,
                        .w = w,
                        .y = y,
                        .y_stride = n_out,
                        .n_tokens = n_tokens,
                        .n_in = n_in,
                        .n_out = n_out};
    layer->kernels->gemm(NULL, &gemm, 1);
}

/* The rows of one call. */
struct rows {
    float qkv[TOKENS * N_CHANNELS], mixed[TOKENS * N_CHANNELS];
    float z[TOKENS * N_VALUES], o[TOKENS * N_VALUES];
    float a[TOKENS * N_HEADS], b[TOKENS * N_HEADS];
};

static void mix(struct layer *layer, uint32_t n, struct rows *rows)
{
    float *conv_state = layer->conv;
    struct causal_conv conv = {.x = rows->qkv,
                               .x_stride = N_CHANNELS,
                               .w = layer->w_conv,
                               .y = rows->mixed,
                               .y_stride = N_CHANNELS,
                               .n_channels = N_CHANNELS,
                               .width = WIDTH,
                               .n_sequences = 1,
                               .lens = &n,
                               .states = &conv_state};
    layer->kernels->causal_conv(NULL, &conv);
    struct delta_gate gate = {.a = rows->a,
                              .b = rows->b,
                              .a_stride = N_HEADS,
                              .b_stride = N_HEADS,
                              .a_log = layer->a_log,
                              .dt_bias = layer->dt_bias,
                              .decay = rows->a,
                              .beta = rows->b,
                              .decay_stride = N_HEADS,
                              .beta_stride = N_HEADS,
                              .n_rows = n,
                              .n_heads = N_HEADS};
    layer->kernels->delta_gate(NULL, &gate);
}

static void recur(struct layer *layer, uint32_t n, struct rows *rows)
{
    float *states[N_HEADS];
    for (uint32_t h = 0; h < N_HEADS; h++)
        states[h] = layer->state + (size_t)h * KEY_DIM * VALUE_DIM;
    struct delta_rule rule = {.q = rows->mixed,
                              .k = rows->mixed + N_KEYS,
                              .v = rows->mixed + (size_t)2 * N_KEYS,
                              .q_stride = N_CHANNELS,
                              .k_stride = N_CHANNELS,
                              .v_stride = N_CHANNELS,
                              .decay = rows->a,
                              .beta = rows->b,
                              .decay_stride = N_HEADS,
                              .beta_stride = N_HEADS,
                              .o = rows->o,
                              .o_stride = N_VALUES,
                              .n_heads = N_HEADS,
                              .n_key_heads = N_KEY_HEADS,
                              .key_dim = KEY_DIM,
                              .value_dim = VALUE_DIM,
                              .norm_eps = 1e-6f,
                              .n_sequences = 1,
                              .lens = &n,
                              .states = states};
    layer->kernels->delta_rule(NULL, &rule);
    struct gated_norm norm = {.x = rows->o,
                              .z = rows->z,
                              .x_stride = N_VALUES,
                              .z_stride = N_VALUES,
                              .w = layer->w_norm,
                              .y = rows->o,
                              .y_stride = N_VALUES,
                              .n_rows = n,
                              .n_heads = N_HEADS,
                              .n = VALUE_DIM,
                              .eps = 1e-6f};
    layer->kernels->gated_norm(NULL, &norm);
}

static void layer_forward(struct layer *layer, const float *x, uint32_t n, float *y)
{
    static struct rows rows;
    multiply(layer, x, n, HIDDEN, layer->w_qkv, N_CHANNELS, rows.qkv);
    multiply(layer, x, n, HIDDEN, layer->w_z, N_VALUES, rows.z);
    multiply(layer, x, n, HIDDEN, layer->w_b, N_HEADS, rows.b);
    multiply(layer, x, n, HIDDEN, layer->w_a, N_HEADS, rows.a);
    mix(layer, n, &rows);
    recur(layer, n, &rows);
    multiply(layer, rows.o, n, N_VALUES, layer->w_out, HIDDEN, y);
}

static void check_golden(const struct kernels *kernels, const char *name, uint32_t n_at_once)
{
    char path[64];
    float y[TOKENS * HIDDEN];
    snprintf(path, sizeof path, "state/%s", name);
    struct floats golden = floats_open(path);
    const float *x = floats_take(&golden, TOKENS * HIDDEN);
    const float *expected = floats_take(&golden, TOKENS * HIDDEN);
    struct layer layer = {.kernels = kernels};
    layer.w_qkv = floats_take(&golden, N_CHANNELS * HIDDEN);
    layer.w_z = floats_take(&golden, N_VALUES * HIDDEN);
    layer.w_b = floats_take(&golden, N_HEADS * HIDDEN);
    layer.w_a = floats_take(&golden, N_HEADS * HIDDEN);
    layer.w_conv = floats_take(&golden, N_CHANNELS * WIDTH);
    layer.a_log = floats_take(&golden, N_HEADS);
    layer.dt_bias = floats_take(&golden, N_HEADS);
    layer.w_norm = floats_take(&golden, VALUE_DIM);
    layer.w_out = floats_take(&golden, HIDDEN * N_VALUES);
    for (uint32_t t = 0; t < TOKENS; t += n_at_once) {
        uint32_t n = TOKENS - t < n_at_once ? TOKENS - t : n_at_once;
        layer_forward(&layer, x + (size_t)t * HIDDEN, n, y + (size_t)t * HIDDEN);
    }
    double worst = values_error(y, expected, TOKENS * HIDDEN);
    cr_assert(worst <= 1e-5, "%s, %s: off by %g", name, kernels->name, worst);
    floats_close(&golden);
}

Test(recurrent_golden, every_implementation_computes_what_transformers_computes)
{
    static const char *const names[] = {"qwen3_5", "qwen3_next"};
    const struct kernels *list[KERNELS_MAX];
    const uint32_t n_list = kernels_list(list, KERNELS_MAX);
    for (uint32_t k = 0; k < n_list; k++)
        for (size_t g = 0; g < sizeof names / sizeof names[0]; g++) {
            check_golden(list[k], names[g], TOKENS);
            check_golden(list[k], names[g], 9);
            check_golden(list[k], names[g], 1);
        }
}
