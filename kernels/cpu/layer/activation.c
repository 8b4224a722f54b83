/*
 * activation - gated and plain activations, sixteen elements at a time.
 *
 *     silu(x)       x / (1 + exp(-alpha x))
 *     sigmoid(x)    1 / (1 + exp(-alpha x))
 *     gelu_tanh(x)  x / (1 + exp(-2 u)), u = sqrt(2 / pi) (x + 0.044715 x^3): (1 + tanh(u)) / 2 is that
 *     gelu(x)       x q for x < 0, x (1 - q) else, q = erfc(|x| / sqrt(2)) / 2
 *
 * In this form no digits cancel: the relative error stays small for small results, too.
 */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/each_row.h"
#include "kernels/cpu/vector/vec.h"

#include <assert.h>
#include <math.h>

#define ROOT_2_OVER_PI 0.797884561f
#define ROOT_HALF      0.707106781f
#define WORK_OF_EXP    4u /* elements that cost as much as one exponential */

/* erfc(z) exp(z^2) for z >= 0, 5e-8 relative up to 9.4, where exp(-z^2) ends: t P(t), t = 2 / (2 + z),
 * P by iterated least squares against float64. */
INLINE vec vec_erfcx(vec z)
{
    static const float factors[] = {0.282087985f,  0.282348119f,   0.243299439f,
                                    0.201919847f,  -0.0248273405f, 0.275474691f,
                                    -0.484947451f, 0.283492871f,   -0.0588482f};
    vec t = vec_div(vec_set(2), vec_add(vec_set(2), z));
    vec p = vec_set(factors[8]);
    UNROLL
    for (int i = 7; i >= 0; i--)
        p = vec_fma(p, t, vec_set(factors[i]));
    return vec_mul(p, t);
}

INLINE vec vec_gelu(vec x)
{
    vec size = vec_max(vec_sub(vec_zero(), x), x); /* in this order NaN stays NaN */
    vec square = vec_mul(vec_mul(x, x), vec_set(-0.5f));
    vec q = vec_mul(vec_erfcx(vec_mul(size, vec_set(ROOT_HALF))), vec_exp(square));
    q = vec_mul(q, vec_set(0.5f));
    return vec_mul(x, vec_choose_below(x, vec_zero(), q, vec_sub(vec_set(1), q)));
}

INLINE vec vec_gelu_tanh(vec x)
{
    vec cubic = vec_fma(vec_mul(vec_mul(x, x), x), vec_set(0.044715f), x);
    return vec_times_sigmoid(x, vec_mul(cubic, vec_set(2 * ROOT_2_OVER_PI)));
}

INLINE vec activate(enum activation activation, vec x, float alpha)
{
    switch (activation) {
    case ACTIVATION_SILU:
        return vec_times_sigmoid(x, vec_mul(x, vec_set(alpha)));
    case ACTIVATION_GELU:
        return vec_gelu(x);
    case ACTIVATION_GELU_TANH:
        return vec_gelu_tanh(x);
    case ACTIVATION_RELU:
        return vec_max(vec_zero(), x);
    case ACTIVATION_SIGMOID:
        return vec_times_sigmoid(vec_set(1), vec_mul(x, vec_set(alpha)));
    }
    return x;
}

INLINE void gated_row_of(const struct gated *gated, uint32_t row, enum activation activation)
{
    const float *gate = (const float *)gated->gate + row * gated->gate_stride;
    const float *up = gated->up ? (const float *)gated->up + row * gated->up_stride : NULL;
    float *y = (float *)gated->y + row * gated->y_stride;
    float limit = gated->limit > 0 ? gated->limit : INFINITY;
    float alpha = gated->alpha > 0 ? gated->alpha : 1;
    for (uint32_t i = 0; i < gated->n; i += LANES) {
        uint32_t rest = gated->n - i;
        bool is_part = rest < LANES;
        vec x = is_part ? vec_load_some(DTYPE_F32, gate + i, rest) : vec_load(gate + i);
        x = activate(activation, vec_min(vec_set(limit), x), alpha);
        if (up) {
            vec v = is_part ? vec_load_some(DTYPE_F32, up + i, rest) : vec_load(up + i);
            v = vec_max(vec_set(-limit), vec_min(vec_set(limit), v));
            x = vec_mul(x, vec_add(v, vec_set(gated->beta)));
        }
        if (is_part)
            vec_store_some(y + i, x, rest);
        else
            vec_store(y + i, x);
    }
}

static void gated_row(const void *op, uint32_t row)
{
    const struct gated *gated = op;
    switch (gated->activation) {
    case ACTIVATION_SILU:
        gated_row_of(gated, row, ACTIVATION_SILU);
        return;
    case ACTIVATION_GELU:
        gated_row_of(gated, row, ACTIVATION_GELU);
        return;
    case ACTIVATION_GELU_TANH:
        gated_row_of(gated, row, ACTIVATION_GELU_TANH);
        return;
    case ACTIVATION_RELU:
        gated_row_of(gated, row, ACTIVATION_RELU);
        return;
    case ACTIVATION_SIGMOID:
        gated_row_of(gated, row, ACTIVATION_SIGMOID);
        return;
    }
    assert(false);
}

void cpu_gated(struct thread_pool *pool, const struct gated *gated)
{
    assert(gated->dtype == DTYPE_F32);
    struct rows_task task = {gated, gated->n_tokens, gated_row};
    each_row(pool, &task, (uint64_t)WORK_OF_EXP * gated->n);
}
