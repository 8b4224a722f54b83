/*
 * recurrent - convolution, gates and norm of a recurrent layer, sixteen channels, heads or elements at a time.
 */
#include "kernels/cpu/layer/recurrent.h"

#include "kernels/cpu/each_row.h"
#include "kernels/cpu/vector/rows.h"
#include "kernels/cpu/walk.h"

#include <assert.h>

enum {
    CONV_CHANNELS = 16 * LANES, /* of a task: fewer would touch many pages for little */
    WORK_OF_GATE = 32,          /* elements that cost as much as one */
    WORK_OF_NORM = 6,
};

/* ---- causal_conv ---- */

/* The channels first .. first + n - 1 of all sequences. */
struct conv_task {
    const struct causal_conv *conv;
    uint32_t first, n;
    float w[CONV_WIDTH_MAX * CONV_CHANNELS]; /* [width][CONV_CHANNELS] */
    float bias[CONV_CHANNELS];
};

static void conv_load(const struct causal_conv *conv, uint32_t index, struct conv_task *task_out)
{
    const uint32_t first = index * CONV_CHANNELS, width = conv->width;
    const uint32_t left = conv->n_channels - first;
    const uint32_t n = left < CONV_CHANNELS ? left : CONV_CHANNELS;
    float rows[CONV_CHANNELS * CONV_WIDTH_MAX] = {0};
    const char *w = (const char *)conv->w + (size_t)first * width * dtype_bytes(conv->w_dtype);
    row_widen(conv->w_dtype, w, n * width, rows);
    for (uint32_t c = 0; c < n; c++)
        for (uint32_t j = 0; j < width; j++)
            task_out->w[j * CONV_CHANNELS + c] = rows[c * width + j];
    for (uint32_t c = 0; c < n; c++)
        task_out->bias[c] = conv->bias ? dtype_load(conv->bias_dtype, conv->bias, first + c) : 0;
    task_out->conv = conv;
    task_out->first = first;
    task_out->n = n;
}

/* taps[j]: the row that meets w[j], from the task's first channel on. */
static void conv_row(const struct conv_task *task, const float *const *taps, float *y)
{
    for (uint32_t i = 0; i < task->n; i += LANES) {
        vec sum = load_from(DTYPE_F32, task->bias, i, task->n);
        for (uint32_t j = 0; j < task->conv->width; j++)
            sum = vec_fma(load_from(DTYPE_F32, task->w + (size_t)j * CONV_CHANNELS, i, task->n),
                          load_from(DTYPE_F32, taps[j], i, task->n), sum);
        store_from(y, vec_times_sigmoid(sum, sum), i, task->n);
    }
}

/* Row `row` of a sequence whose rows begin at x; rows below 0 are in the state. */
static const float *conv_input(const struct conv_task *task, const float *x, const float *state,
                               int64_t row)
{
    const struct causal_conv *conv = task->conv;
    if (row >= 0)
        return x + (uint64_t)row * conv->x_stride;
    return state + (size_t)(conv->width - 1 + row) * conv->n_channels;
}

static void conv_sequence(const struct conv_task *task, uint32_t n_rows, uint64_t first_row,
                          float *state)
{
    const struct causal_conv *conv = task->conv;
    const int64_t n_before = conv->width - 1;
    const float *x = conv->x + first_row * conv->x_stride + task->first;
    float *y = conv->y + first_row * conv->y_stride + task->first;
    for (int64_t t = 0; t < n_rows; t++) {
        const float *taps[CONV_WIDTH_MAX];
        for (int64_t j = 0; j <= n_before; j++)
            taps[j] = conv_input(task, x, state, t - n_before + j);
        conv_row(task, taps, y + (uint64_t)t * conv->y_stride);
    }
    for (int64_t j = 0; j < n_before; j++) /* a row comes from one behind it */
        memcpy(state + (size_t)j * conv->n_channels,
               conv_input(task, x, state, n_rows - n_before + j), task->n * sizeof *state);
}

static void conv_run(void *arg, uint32_t index)
{
    const struct causal_conv *conv = arg;
    struct conv_task task;
    uint64_t row = 0;
    conv_load(conv, index, &task);
    for (uint32_t s = 0; s < conv->n_sequences; row += conv->lens[s++]) {
        float *state = conv->states[s] + task.first;
        if (conv->lens[s] == 0)
            continue;
        for (uint32_t j = 0; conv->begins && conv->begins[s] && j + 1 < conv->width; j++)
            memset(state + (size_t)j * conv->n_channels, 0, task.n * sizeof *state);
        conv_sequence(&task, conv->lens[s], row, state);
    }
}

static uint64_t count_rows(const uint32_t *lens, uint32_t n_sequences)
{
    uint64_t n_rows = 0;
    for (uint32_t s = 0; s < n_sequences; s++)
        n_rows += lens[s];
    return n_rows;
}

void cpu_causal_conv(struct thread_pool *pool, const struct causal_conv *conv)
{
    const uint64_t n_rows = count_rows(conv->lens, conv->n_sequences);
    assert(conv->width <= CONV_WIDTH_MAX);
    if (n_rows > 0)
        walk_all(pool, n_rows * conv->n_channels * conv->width,
                 (conv->n_channels + CONV_CHANNELS - 1) / CONV_CHANNELS, conv_run,
                 (void *)(uintptr_t)conv);
}

/* ---- delta_gate ---- */

/* log(1 + e^x) = max(x, 0) + log(1 + u), u = e^-|x|. The logarithm is 2 artanh(s), s = u / (2 + u), at most 1/3: its series to
 * s^15. NaN stays NaN. */
INLINE vec vec_softplus(vec x)
{
    static const float factors[] = {1,        1.0f / 3,  1.0f / 5,  1.0f / 7,
                                    1.0f / 9, 1.0f / 11, 1.0f / 13, 1.0f / 15};
    vec size = vec_max(vec_sub(vec_zero(), x), x); /* in this order NaN stays NaN */
    vec u = vec_exp(vec_sub(vec_zero(), size));
    vec s = vec_div(u, vec_add(vec_set(2), u));
    vec square = vec_mul(s, s);
    vec p = vec_set(factors[7]);
    UNROLL
    for (int i = 6; i >= 0; i--)
        p = vec_fma(p, square, vec_set(factors[i]));
    return vec_fma(vec_add(s, s), p, vec_max(vec_zero(), x));
}

static void gate_row(const void *op, uint32_t row)
{
    const struct delta_gate *gate = op;
    const uint32_t n = gate->n_heads;
    const float *a = gate->a + row * gate->a_stride, *b = gate->b + row * gate->b_stride;
    float *decay = gate->decay + row * gate->decay_stride;
    float *beta = gate->beta + row * gate->beta_stride;
    for (uint32_t i = 0; i < n; i += LANES) {
        vec step = vec_add(load_from(DTYPE_F32, a, i, n),
                           load_from(gate->dt_bias_dtype, gate->dt_bias, i, n));
        vec rate = vec_exp(load_from(gate->a_log_dtype, gate->a_log, i, n));
        vec exponent = vec_sub(vec_zero(), vec_mul(rate, vec_softplus(step)));
        vec share = vec_times_sigmoid(vec_set(1), load_from(DTYPE_F32, b, i, n));
        store_from(decay, vec_exp(exponent), i, n);
        store_from(beta, share, i, n);
    }
}

void cpu_delta_gate(struct thread_pool *pool, const struct delta_gate *gate)
{
    struct rows_task task = {gate, gate->n_rows, gate_row};
    each_row(pool, &task, (uint64_t)WORK_OF_GATE * gate->n_heads);
}

/* ---- gated_norm ---- */

static void gated_norm_head(const struct gated_norm *norm, const float *x, const float *z, float *y)
{
    const uint32_t n = norm->n;
    const vec factor = vec_set(row_factor(x, n, 0, norm->eps));
    for (uint32_t i = 0; i < n; i += LANES) {
        vec gate = load_from(DTYPE_F32, z, i, n);
        vec scaled = vec_mul(load_from(DTYPE_F32, x, i, n), factor);
        scaled = vec_mul(scaled, load_from(norm->w_dtype, norm->w, i, n));
        store_from(y, vec_mul(scaled, vec_times_sigmoid(gate, gate)), i, n);
    }
}

static void gated_norm_row(const void *op, uint32_t row)
{
    const struct gated_norm *norm = op;
    const float *x = norm->x + row * norm->x_stride, *z = norm->z + row * norm->z_stride;
    float *y = norm->y + row * norm->y_stride;
    for (uint32_t h = 0; h < norm->n_heads; h++, x += norm->n, z += norm->n, y += norm->n)
        gated_norm_head(norm, x, z, y);
}

void cpu_gated_norm(struct thread_pool *pool, const struct gated_norm *norm)
{
    struct rows_task task = {norm, norm->n_rows, gated_norm_row};
    each_row(pool, &task, (uint64_t)WORK_OF_NORM * norm->n_heads * norm->n);
}
