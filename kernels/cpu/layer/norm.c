/*
 * norm - RMS norm and layer norm, a row at a time, every sum in sixteen lanes.
 */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/each_row.h"
#include "kernels/cpu/vector/rows.h"

#include <assert.h>

/* y = (x - mean) * factor * (w + offset) + bias */
struct affine {
    const void *w, *bias; /* NULL: 1 and 0 */
    enum dtype w_dtype, bias_dtype;
    uint32_t n;
    float mean, factor, offset;
};

static void row_affine(const struct affine *affine, const float *x, float *y)
{
    uint32_t n = affine->n;
    for (uint32_t i = 0; i < n; i += LANES) {
        vec v = vec_sub(load_from(DTYPE_F32, x, i, n), vec_set(affine->mean));
        v = vec_mul(v, vec_set(affine->factor));
        if (affine->w)
            v = vec_mul(
                v, vec_add(load_from(affine->w_dtype, affine->w, i, n), vec_set(affine->offset)));
        if (affine->bias)
            v = vec_add(v, load_from(affine->bias_dtype, affine->bias, i, n));
        store_from(y, v, i, n);
    }
}

static float row_mean(const float *x, uint32_t n)
{
    vec sum = vec_zero();
    for (uint32_t i = 0; i < n; i += LANES)
        sum = vec_add(sum, load_from(DTYPE_F32, x, i, n));
    return vec_sum(sum) / (float)n;
}

static void rms_norm_row(const void *op, uint32_t row)
{
    const struct rms_norm *norm = op;
    const float *x = (const float *)norm->x + row * norm->x_stride;
    struct affine affine = {
        .w = norm->w,
        .w_dtype = norm->w_dtype,
        .n = norm->n,
        .factor = row_factor(x, norm->n, 0, norm->eps),
        .offset = norm->is_unit_offset ? 1 : 0,
    };
    row_affine(&affine, x, (float *)norm->y + row * norm->y_stride);
}

void cpu_rms_norm(struct thread_pool *pool, const struct rms_norm *norm)
{
    assert(norm->x_dtype == DTYPE_F32 && norm->y_dtype == DTYPE_F32);
    struct rows_task task = {norm, norm->n_tokens, rms_norm_row};
    each_row(pool, &task, norm->n);
}

static void layer_norm_row(const void *op, uint32_t row)
{
    const struct layer_norm *norm = op;
    const float *x = (const float *)norm->x + row * norm->x_stride;
    float mean = row_mean(x, norm->n);
    struct affine affine = {
        .w = norm->w,
        .bias = norm->bias,
        .w_dtype = norm->w_dtype,
        .bias_dtype = norm->bias_dtype,
        .n = norm->n,
        .mean = mean,
        .factor = row_factor(x, norm->n, mean, norm->eps),
    };
    row_affine(&affine, x, (float *)norm->y + row * norm->y_stride);
}

void cpu_layer_norm(struct thread_pool *pool, const struct layer_norm *norm)
{
    assert(norm->x_dtype == DTYPE_F32 && norm->y_dtype == DTYPE_F32);
    struct rows_task task = {norm, norm->n_tokens, layer_norm_row};
    each_row(pool, &task, 2 * norm->n);
}
