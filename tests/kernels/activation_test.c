/* activations: the formulas of kernel_set.h in float64 and values published for them, gates with alpha,
 * beta and limit, plain ones, rows apart and in place, and the same bits on every set. */
#include "base/thread_pool.h"
#include "tests/kernels/support/rows.h"

enum { N_ROWS = 3 };

static double activation(const struct gated *gated, double x)
{
    double alpha = gated->alpha > 0 ? (double)gated->alpha : 1;
    switch (gated->activation) {
    case ACTIVATION_SILU:
        return x / (1 + exp(-alpha * x));
    case ACTIVATION_GELU:
        return 0.5 * x * erfc(-x * M_SQRT1_2);
    case ACTIVATION_GELU_TANH:
        return x / (1 + exp(-2 * sqrt(M_2_PI) * (x + 0.044715 * x * x * x)));
    case ACTIVATION_RELU:
        return fmax(x, 0);
    case ACTIVATION_SIGMOID:
        return 1 / (1 + exp(-alpha * x));
    }
    return NAN;
}

static double expected_at(const struct gated *gated, uint32_t row, uint32_t i)
{
    double limit = gated->limit > 0 ? (double)gated->limit : INFINITY;
    double gate = (double)((const float *)gated->gate)[row * gated->gate_stride + i];
    double y = activation(gated, fmin(gate, limit));
    if (!gated->up)
        return y;
    double up = (double)((const float *)gated->up)[row * gated->up_stride + i];
    return y * (fmin(fmax(up, -limit), limit) + (double)gated->beta);
}

static void assert_formula(const struct kernels *kernels, const struct gated *gated)
{
    for (uint32_t r = 0; r < gated->n_tokens; r++)
        for (uint32_t i = 0; i < gated->n; i++) {
            double got = (double)((const float *)gated->y)[r * gated->y_stride + i];
            double expected = expected_at(gated, r, i);
            cr_assert(fabs(got - expected) <= 1e-6 * fmax(1, fabs(expected)),
                      "%s, activation %d, %u elements: row %u, %u is %.9g, not %.9g", kernels->name,
                      (int)gated->activation, gated->n, r, i, got, expected);
        }
}

/* Forms that models have, with each activation. */
static const struct form {
    bool has_up;
    float alpha, beta, limit;
} forms[] = {
    {.has_up = true},
    {.has_up = false},
    {.has_up = true, .alpha = 1.702f, .beta = 1, .limit = 7},
    {.has_up = false, .limit = 2},
    {.has_up = true, .beta = -0.5f},
};

static struct gated gated_of(const struct form *form, enum activation kind, const struct rows *gate,
                             const struct rows *up, const struct rows *y)
{
    return (struct gated){
        .gate = gate->data,
        .up = form->has_up ? up->data : NULL,
        .gate_stride = gate->stride,
        .up_stride = up->stride,
        .y = y->data,
        .y_stride = y->stride,
        .n_tokens = gate->n_rows,
        .n = gate->n,
        .activation = kind,
        .alpha = form->alpha,
        .beta = form->beta,
        .limit = form->limit,
    };
}

/* In place of one input: the bits of y. */
static void check_in_place(const struct kernels *kernels, struct gated gated, struct rows *place,
                           const struct rows *y)
{
    gated.y = place->data;
    gated.y_stride = place->stride;
    kernels->gated(NULL, &gated);
    rows_assert_equal(place, y, "in place");
}

static struct rows check_form(const struct kernels *kernels, const struct form *form,
                              enum activation kind, uint32_t n)
{
    struct rows gate = rows_random(N_ROWS, n, 3);
    struct rows up = rows_random(N_ROWS, n, 4);
    struct rows y = rows_create(N_ROWS, n);
    gate.data[0] = -200; /* its exponential overflows */
    gate.data[gate.stride] = 200;
    struct gated gated = gated_of(form, kind, &gate, &up, &y);
    kernels->gated(NULL, &gated);
    assert_formula(kernels, &gated);
    rows_assert_gaps(&y, kernels->name);
    if (form->has_up) {
        struct rows other = rows_random(N_ROWS, n, 4);
        gated.up = other.data;
        check_in_place(kernels, gated, &other, &y);
        rows_destroy(&other);
        gated.up = up.data;
    }
    check_in_place(kernels, gated, &gate, &y);
    rows_destroy(&gate);
    rows_destroy(&up);
    return y;
}

Test(activation, every_form_is_its_formula_and_the_same_on_every_set)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n_list = kernels_list(list, KERNELS_MAX);
    for (enum activation kind = ACTIVATION_SILU; kind <= ACTIVATION_SIGMOID; kind++)
        for (size_t f = 0; f < COUNT(forms); f++)
            for (size_t s = 0; s < COUNT(row_sizes); s++) {
                struct rows first = {0};
                for (uint32_t k = 0; k < n_list; k++) {
                    struct rows y = check_form(list[k], &forms[f], kind, row_sizes[s]);
                    if (has_common_bits(list[k]) && first.data)
                        rows_assert_equal(&y, &first, list[k]->name);
                    if (has_common_bits(list[k]) && !first.data)
                        first = y;
                    else
                        rows_destroy(&y);
                }
                if (first.data)
                    rows_destroy(&first);
            }
}

/* Relative to the result, also where it is tiny: as exact as 1 + tanh(u) in float64. */
Test(activation, small_results_keep_their_digits)
{
    enum { N = 1600 };
    const struct kernels *list[KERNELS_MAX];
    uint32_t n_list = kernels_list(list, KERNELS_MAX);
    struct rows x = rows_create(1, N);
    struct rows y = rows_create(1, N);
    for (uint32_t i = 0; i < N; i++)
        x.data[i] = ((float)i - N / 2) / 128;
    for (enum activation kind = ACTIVATION_SILU; kind <= ACTIVATION_SIGMOID; kind++)
        for (uint32_t k = 0; k < n_list; k++) {
            struct gated gated = gated_of(&forms[1], kind, &x, &x, &y);
            list[k]->gated(NULL, &gated);
            for (uint32_t i = 0; i < N; i++) {
                double expected = expected_at(&gated, 0, i);
                cr_assert(fabs((double)y.data[i] - expected) <= 4e-6 * fabs(expected) + 1e-15,
                          "%s, activation %d of %g: %.9g, not %.9g", list[k]->name, (int)kind,
                          (double)x.data[i], (double)y.data[i], expected);
            }
        }
    rows_destroy(&x);
    rows_destroy(&y);
}

/* torch.nn.functional of torch 2.15.0: silu, gelu, gelu(approximate="tanh"), relu, sigmoid; and GptOssExperts
 * of transformers 5.23.0 with gate x and up 8. */
static const struct {
    float x, y[5], gpt_oss;
} published[] = {
    {-9, {-0.00111055118f, -0, -0, 0, 0.00012339458f}, -1.60254276e-05f},
    {-3.5f, {-0.102592811f, -0.00081422925f, -0.000616148114f, 0, 0.0293122306f}, -0.0722675547f},
    {-1, {-0.268941432f, -0.158655256f, -0.158807993f, 0, 0.268941432f}, -1.23363388f},
    {-0.25f, {-0.109455876f, -0.100323424f, -0.100324646f, 0, 0.437823504f}, -0.79040277f},
    {0, {0, 0, 0, 0, 0.5f}, 0},
    {0.5f, {0.311229676f, 0.345731229f, 0.345714003f, 0.5f, 0.622459352f}, 2.8031075f},
    {1.75f, {1.49091733f, 1.67989647f, 1.67979538f, 1.75f, 0.851952732f}, 13.3223057f},
    {6, {5.98516464f, 6, 6, 6, 0.997527421f}, 47.9982376f},
    {9, {8.99888992f, 9, 9, 9, 0.999876618f}, 55.9996262f},
};

Test(activation, values_are_those_of_torch)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n_list = kernels_list(list, KERNELS_MAX);
    for (size_t i = 0; i < COUNT(published); i++)
        for (uint32_t k = 0; k < n_list; k++) {
            float up = 8, y;
            struct gated gated = {.gate = &published[i].x, .y = &y, .n_tokens = 1, .n = 1};
            for (int kind = 0; kind < 5; kind++) {
                gated.activation = (enum activation)kind;
                list[k]->gated(NULL, &gated);
                cr_assert_float_eq(y, published[i].y[kind], 1e-6, "%s: %d of %g is %.9g",
                                   list[k]->name, kind, published[i].x, y);
            }
            gated.activation = ACTIVATION_SILU;
            gated.up = &up;
            gated.alpha = 1.702f;
            gated.beta = 1;
            gated.limit = 7;
            list[k]->gated(NULL, &gated);
            cr_assert_float_eq(y, published[i].gpt_oss, 8e-6, "%s: gpt-oss of %g is %.9g",
                               list[k]->name, published[i].x, y);
        }
}

Test(activation, nan_stays_nan)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n_list = kernels_list(list, KERNELS_MAX);
    for (uint32_t k = 0; k < n_list; k++)
        for (enum activation kind = ACTIVATION_SILU; kind <= ACTIVATION_SIGMOID; kind++)
            for (uint32_t nans = 1; nans < 4; nans++) {
                float gate[20], up[20], y[20];
                for (uint32_t i = 0; i < 20; i++) {
                    gate[i] = i % 2 && (nans & 1) ? NAN : 1;
                    up[i] = i % 2 && (nans & 2) ? NAN : 1;
                }
                struct gated gated = {.gate = gate,
                                      .up = up,
                                      .gate_stride = 20,
                                      .up_stride = 20,
                                      .y = y,
                                      .y_stride = 20,
                                      .n_tokens = 1,
                                      .n = 20,
                                      .activation = kind,
                                      .alpha = 1,
                                      .beta = 1,
                                      .limit = 7};
                list[k]->gated(NULL, &gated);
                for (uint32_t i = 0; i < 20; i++)
                    cr_assert_eq(!!isnan(y[i]), i % 2, "%s, %d", list[k]->name, (int)kind);
            }
}

Test(activation, threads_and_repeats_change_no_bit)
{
    enum { N_MANY = 70 };
    const struct kernels *list[KERNELS_MAX];
    uint32_t n_list = kernels_list(list, KERNELS_MAX);
    struct thread_pool *pool;
    cr_assert_eq(thread_pool_create(3, false, &pool), STATUS_OK);
    struct rows gate = rows_random(N_MANY, 576, 9);
    struct rows up = rows_random(N_MANY, 576, 10);
    struct rows alone = rows_create(N_MANY, 576);
    struct rows shared = rows_create(N_MANY, 576);
    for (uint32_t k = 0; k < n_list; k++)
        for (enum activation kind = ACTIVATION_SILU; kind <= ACTIVATION_SIGMOID; kind++) {
            struct gated gated = gated_of(&forms[2], kind, &gate, &up, &alone);
            list[k]->gated(NULL, &gated);
            gated.y = shared.data;
            for (uint32_t repeat = 0; repeat < 2; repeat++) {
                list[k]->gated(pool, &gated);
                rows_assert_equal(&alone, &shared, list[k]->name);
            }
        }
    rows_destroy(&gate);
    rows_destroy(&up);
    rows_destroy(&alone);
    rows_destroy(&shared);
    thread_pool_destroy(pool);
}
