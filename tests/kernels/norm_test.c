/* norms: the formulas of kernel_set.h in float64, weights and biases of each dtype or none, rows apart
 * and in place, and the same bits on every set, alone, again and with threads. */
#include "base/thread_pool.h"
#include "tests/kernels/support/rows.h"

enum { N_ROWS = 5, SIZE_MAX_TESTED = 576 };

enum form { RMS, RMS_PLAIN, RMS_UNIT_OFFSET, LAYER, LAYER_PLAIN, LAYER_NO_BIAS, N_FORMS };

/* One norm of both kinds. */
struct norm {
    enum form form;
    enum dtype dtype;
    struct guarded w, bias;
    float eps;
};

static bool is_layer(const struct norm *norm)
{
    return norm->form >= LAYER;
}

static bool has_weights(const struct norm *norm)
{
    return norm->form != RMS_PLAIN && norm->form != LAYER_PLAIN;
}

static struct norm norm_create(enum form form, enum dtype dtype, uint32_t n)
{
    struct norm norm = {.form = form, .dtype = dtype, .eps = 1e-5f};
    norm.w = guarded_create(n * dtype_bytes(dtype));
    norm.bias = guarded_create(n * dtype_bytes(dtype));
    for (uint32_t i = 0; i < n; i++) {
        dtype_store(dtype, norm.w.data, i, 1 + values_at(2, 0, i));
        dtype_store(dtype, norm.bias.data, i, values_at(3, 0, i));
    }
    return norm;
}

static void norm_destroy(struct norm *norm)
{
    guarded_destroy(&norm->w);
    guarded_destroy(&norm->bias);
}

static void norm_run(const struct kernels *kernels, struct thread_pool *pool,
                     const struct norm *norm, const struct rows *x, struct rows *y)
{
    const void *w = has_weights(norm) ? norm->w.data : NULL;
    struct layer_norm layer = {
        .x = x->data,
        .x_stride = x->stride,
        .w = w,
        .bias = norm->form == LAYER ? norm->bias.data : NULL,
        .w_dtype = norm->dtype,
        .bias_dtype = norm->dtype,
        .y = y->data,
        .y_stride = y->stride,
        .n_tokens = x->n_rows,
        .n = x->n,
        .eps = norm->eps,
    };
    struct rms_norm rms = {
        .x = x->data,
        .x_stride = x->stride,
        .w = w,
        .w_dtype = norm->dtype,
        .y = y->data,
        .y_stride = y->stride,
        .n_tokens = x->n_rows,
        .n = x->n,
        .eps = norm->eps,
        .is_unit_offset = norm->form == RMS_UNIT_OFFSET,
    };
    if (is_layer(norm))
        kernels->layer_norm(pool, &layer);
    else
        kernels->rms_norm(pool, &rms);
}

static void expected_row(const struct norm *norm, const float *x, uint32_t n, double *y)
{
    double mean = 0, squares = 0;
    for (uint32_t i = 0; i < n && is_layer(norm); i++)
        mean += (double)x[i] / n;
    for (uint32_t i = 0; i < n; i++)
        squares += ((double)x[i] - mean) * ((double)x[i] - mean);
    for (uint32_t i = 0; i < n; i++) {
        double w = has_weights(norm) ? (double)dtype_load(norm->dtype, norm->w.data, i) : 1;
        w += norm->form == RMS_UNIT_OFFSET ? 1 : 0;
        y[i] = w * ((double)x[i] - mean) / sqrt(squares / n + (double)norm->eps);
        if (norm->form == LAYER)
            y[i] += (double)dtype_load(norm->dtype, norm->bias.data, i);
    }
}

static void assert_formula(const struct kernels *kernels, const struct norm *norm,
                           const struct rows *x, const struct rows *y, double error)
{
    double expected[SIZE_MAX_TESTED];
    for (uint32_t r = 0; r < x->n_rows; r++) {
        expected_row(norm, x->data + r * x->stride, x->n, expected);
        for (uint32_t i = 0; i < x->n; i++) {
            double got = (double)y->data[r * y->stride + i];
            cr_assert(fabs(got - expected[i]) <= error * fmax(1, fabs(expected[i])),
                      "%s, form %d, %u elements: row %u, %u is %.9g, not %.9g", kernels->name,
                      (int)norm->form, x->n, r, i, got, expected[i]);
        }
    }
}

static void check_form(enum form form, enum dtype dtype, uint32_t n)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n_list = kernels_list(list, KERNELS_MAX);
    struct norm norm = norm_create(form, dtype, n);
    struct rows first = {0};
    for (uint32_t k = 0; k < n_list; k++) {
        struct rows x = rows_random(N_ROWS, n, 1);
        struct rows y = rows_create(N_ROWS, n);
        norm_run(list[k], NULL, &norm, &x, &y);
        assert_formula(list[k], &norm, &x, &y, 1e-6);
        rows_assert_gaps(&y, list[k]->name);
        norm_run(list[k], NULL, &norm, &x, &x);
        rows_assert_equal(&x, &y, "in place");
        if (has_common_bits(list[k]) && first.data)
            rows_assert_equal(&y, &first, list[k]->name);
        rows_destroy(&x);
        if (has_common_bits(list[k]) && !first.data)
            first = y;
        else
            rows_destroy(&y);
    }
    if (first.data)
        rows_destroy(&first);
    norm_destroy(&norm);
}

Test(norm, every_form_is_its_formula_and_the_same_on_every_set)
{
    for (enum form form = RMS; form < N_FORMS; form++)
        for (enum dtype dtype = DTYPE_F32; dtype <= DTYPE_F16; dtype++)
            for (size_t s = 0; s < COUNT(row_sizes); s++)
                check_form(form, dtype, row_sizes[s]);
}

/* Sums of squares would cancel: E[x^2] - E[x]^2 of these has no digit left. */
Test(norm, layer_norm_takes_the_mean_off_before_it_squares)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n_list = kernels_list(list, KERNELS_MAX);
    struct norm norm = norm_create(LAYER, DTYPE_F32, 100);
    struct rows x = rows_random(N_ROWS, 100, 1);
    struct rows y = rows_create(N_ROWS, 100);
    for (uint32_t i = 0; i < (N_ROWS - 1) * x.stride + 100; i++)
        x.data[i] = x.data[i] / 64 + 1000;
    for (uint32_t k = 0; k < n_list; k++) {
        norm_run(list[k], NULL, &norm, &x, &y);
        assert_formula(list[k], &norm, &x, &y, 1e-2); /* sums of such are rounded to 2^-11 */
    }
    rows_destroy(&x);
    rows_destroy(&y);
    norm_destroy(&norm);
}

Test(norm, threads_and_repeats_change_no_bit)
{
    enum { N_MANY = 70 };
    const struct kernels *list[KERNELS_MAX];
    uint32_t n_list = kernels_list(list, KERNELS_MAX);
    struct thread_pool *pool;
    cr_assert_eq(thread_pool_create(3, false, &pool), STATUS_OK);
    for (enum form form = RMS; form < N_FORMS; form++) {
        struct norm norm = norm_create(form, DTYPE_BF16, 576);
        struct rows x = rows_random(N_MANY, 576, 9);
        struct rows alone = rows_create(N_MANY, 576);
        struct rows shared = rows_create(N_MANY, 576);
        for (uint32_t k = 0; k < n_list; k++) {
            norm_run(list[k], NULL, &norm, &x, &alone);
            norm_run(list[k], pool, &norm, &x, &shared);
            rows_assert_equal(&alone, &shared, list[k]->name);
            norm_run(list[k], pool, &norm, &x, &shared);
            rows_assert_equal(&alone, &shared, list[k]->name);
        }
        rows_destroy(&x);
        rows_destroy(&alone);
        rows_destroy(&shared);
        norm_destroy(&norm);
    }
    thread_pool_destroy(pool);
}
