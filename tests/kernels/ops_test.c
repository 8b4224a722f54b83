/* the other operators: the formulas of kernels.h in float64, tails and guard pages, equal bits on
 * every instruction set, and what a name selects. */
#include "kernels/kernels.h"
#include "tests/kernels/support/guarded.h"
#include "tests/kernels/support/values.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define KERNELS_MAX 4u

static const uint32_t sizes[] = {1, 2, 8, 15, 16, 17, 31, 32, 33, 64, 100, 576};

#define COUNT(array) (sizeof array / sizeof array[0])

static struct guarded rows(uint32_t n_rows, uint32_t n, uint64_t seed)
{
    struct guarded guarded = guarded_create((size_t)n_rows * n * sizeof(float));
    for (uint32_t r = 0; r < n_rows; r++)
        for (uint32_t i = 0; i < n; i++)
            ((float *)guarded.data)[(size_t)r * n + i] = 4 * values_at(seed, r, i);
    return guarded;
}

static void assert_close(const char *name, uint32_t n, float got, double expected)
{
    cr_assert(fabs((double)got - expected) <= 1e-6 * fmax(1, fabs(expected)),
              "%s, %u elements: %.9g, not %.9g", name, n, (double)got, expected);
}

static void check_norm(const struct kernels *kernels, uint32_t n, enum dtype dtype, float *first)
{
    enum { N_ROWS = 19 };
    struct guarded x = rows(N_ROWS, n, 1);
    struct guarded y = guarded_create(N_ROWS * n * sizeof(float));
    struct guarded w = guarded_create(n * dtype_bytes(dtype));
    for (uint32_t i = 0; i < n; i++)
        dtype_store(dtype, w.data, i, 1 + values_at(2, 0, i));
    struct rms_norm norm = {x.data, n, w.data, dtype, y.data, n, N_ROWS, n, 1e-5f};
    kernels->rms_norm(NULL, &norm);
    for (uint32_t r = 0; r < N_ROWS; r++) {
        const float *row = (const float *)x.data + r * n;
        double squares = 0;
        for (uint32_t i = 0; i < n; i++)
            squares += (double)row[i] * (double)row[i];
        for (uint32_t i = 0; i < n; i++)
            assert_close("rms_norm", n, ((float *)y.data)[r * n + i],
                         (double)row[i] / sqrt(squares / n + (double)1e-5f) *
                             (double)dtype_load(dtype, w.data, i));
    }
    memcpy(first, y.data, n * sizeof *first);
    norm.y = x.data; /* in place */
    kernels->rms_norm(NULL, &norm);
    cr_assert_arr_eq(x.data, y.data, N_ROWS * n * sizeof(float));
    guarded_destroy(&x);
    guarded_destroy(&y);
    guarded_destroy(&w);
}

Test(ops, rms_norm_is_its_formula_and_the_same_on_every_set)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n_list = kernels_list(list, KERNELS_MAX);
    for (size_t s = 0; s < COUNT(sizes); s++)
        for (enum dtype dtype = DTYPE_F32; dtype <= DTYPE_F16; dtype++) {
            float first[KERNELS_MAX][576];
            for (uint32_t k = 0; k < n_list; k++)
                check_norm(list[k], sizes[s], dtype, first[k]);
            for (uint32_t k = 2; k < n_list; k++)
                cr_assert_arr_eq(first[k], first[1], sizes[s] * sizeof(float));
        }
}

static void check_swiglu(const struct kernels *kernels, uint32_t n, float *first)
{
    enum { N_ROWS = 3 };
    struct guarded gate = rows(N_ROWS, n, 3);
    struct guarded up = rows(N_ROWS, n, 4);
    struct guarded y = guarded_create(N_ROWS * n * sizeof(float));
    ((float *)gate.data)[0] = -200; /* its exponential overflows */
    ((float *)gate.data)[n] = 200;
    struct swiglu swiglu = {gate.data, up.data, n, n, y.data, n, N_ROWS, n};
    kernels->swiglu(NULL, &swiglu);
    for (uint32_t i = 0; i < N_ROWS * n; i++) {
        double x = (double)((float *)gate.data)[i];
        assert_close("swiglu", n, ((float *)y.data)[i],
                     x / (1 + exp(-x)) * (double)((float *)up.data)[i]);
    }
    memcpy(first, y.data, n * sizeof *first);
    swiglu.y = gate.data;
    kernels->swiglu(NULL, &swiglu);
    cr_assert_arr_eq(gate.data, y.data, N_ROWS * n * sizeof(float));
    guarded_destroy(&gate);
    guarded_destroy(&up);
    guarded_destroy(&y);
}

Test(ops, swiglu_is_its_formula_and_the_same_on_every_set)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n_list = kernels_list(list, KERNELS_MAX);
    for (size_t s = 0; s < COUNT(sizes); s++) {
        float first[KERNELS_MAX][576];
        for (uint32_t k = 0; k < n_list; k++)
            check_swiglu(list[k], sizes[s], first[k]);
        for (uint32_t k = 2; k < n_list; k++)
            cr_assert_arr_eq(first[k], first[1], sizes[s] * sizeof(float));
    }
}

Test(ops, embedding_widens_the_named_rows)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n_list = kernels_list(list, KERNELS_MAX);
    static const uint32_t ids[] = {4, 0, 4, 2};
    for (size_t s = 0; s < COUNT(sizes); s++)
        for (enum dtype dtype = DTYPE_F32; dtype <= DTYPE_F16; dtype++) {
            uint32_t n = sizes[s];
            struct guarded table = guarded_create(5 * n * dtype_bytes(dtype));
            struct guarded y = guarded_create(4 * n * sizeof(float));
            for (uint32_t i = 0; i < 5 * n; i++)
                dtype_store(dtype, table.data, i, values_at(7, 0, i));
            for (uint32_t k = 0; k < n_list; k++) {
                struct embedding embedding = {table.data, dtype, ids, y.data, n, 4, n, 5};
                memset(y.data, 0xff, 4 * n * sizeof(float));
                list[k]->embedding(NULL, &embedding);
                for (uint32_t i = 0; i < 4 * n; i++)
                    cr_assert_eq(((float *)y.data)[i],
                                 dtype_load(dtype, table.data, ids[i / n] * n + i % n));
            }
            guarded_destroy(&table);
            guarded_destroy(&y);
        }
}

Test(ops, add_argmax_and_log_sum_exp)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n_list = kernels_list(list, KERNELS_MAX);
    for (size_t s = 0; s < COUNT(sizes); s++)
        for (uint32_t k = 0; k < n_list; k++) {
            uint32_t n = sizes[s];
            struct guarded x = rows(1, n, s);
            struct guarded y = rows(1, n, s + 50);
            float *values = x.data;
            uint32_t best = 0;
            double sum = 0;
            for (uint32_t i = 0; i < n; i++) {
                best = values[i] > values[best] ? i : best;
                sum += exp((double)values[i]);
            }
            cr_assert_eq(list[k]->argmax(values, n), best);
            assert_close("log_sum_exp", n, list[k]->log_sum_exp(values, n), log(sum));
            float expected = values[n - 1] + ((float *)y.data)[n - 1];
            list[k]->add(y.data, values, n);
            cr_assert_eq(((float *)y.data)[n - 1], expected);
            guarded_destroy(&x);
            guarded_destroy(&y);
        }
}

Test(ops, argmax_takes_the_first_of_equals_and_no_nan)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n_list = kernels_list(list, KERNELS_MAX);
    for (uint32_t k = 0; k < n_list; k++) {
        float x[40];
        for (uint32_t i = 0; i < 40; i++)
            x[i] = i % 2 ? NAN : -1.0f - (float)(i == 0);
        cr_assert_eq(list[k]->argmax(x, 40), 2, "%s", list[k]->name);
        x[35] = x[21] = 5;
        cr_assert_eq(list[k]->argmax(x, 40), 21, "%s", list[k]->name);
        for (uint32_t i = 0; i < 40; i++)
            x[i] = -INFINITY;
        x[39] = -3;
        cr_assert_eq(list[k]->argmax(x, 40), 39, "%s", list[k]->name);
        cr_assert_eq(list[k]->log_sum_exp(x, 40), -3.0f);
    }
}

Test(ops, every_half_survives_widening_and_narrowing)
{
    for (uint32_t h = 0; h < 65536; h++) {
        uint16_t half = (uint16_t)h;
        float f16 = f16_to_f32(half);
        float bf16 = bf16_to_f32(half);
        cr_assert(isnan(f16) ? isnan(f16_to_f32(f16_from_f32(f16))) : f16_from_f32(f16) == half);
        cr_assert(isnan(bf16) ? isnan(bf16_to_f32(bf16_from_f32(bf16)))
                              : bf16_from_f32(bf16) == half);
    }
    cr_assert_eq(f16_from_f32(65519.0f), 0x7bff);
    cr_assert_eq(f16_from_f32(65520.0f), 0x7c00);
    cr_assert_eq(f16_from_f32(0x1p-25f), 0);         /* a tie: to even */
    cr_assert_eq(f16_from_f32(0x1.000002p-25f), 1);  /* above it */
    cr_assert_eq(f16_from_f32(-0x1.8p-24f), 0x8002); /* 1.5 units: to even */
    cr_assert_eq(bf16_from_f32(0x1.01p0f), 0x3f80);  /* a tie */
    cr_assert_eq(bf16_from_f32(0x1.03p0f), 0x3f82);
}

Test(ops, a_name_or_the_environment_selects)
{
    const struct kernels *kernels;
    struct error error;
    cr_assert_eq(kernels_select("reference", &kernels, &error), STATUS_OK);
    cr_assert_str_eq(kernels->name, "reference");
    cr_assert_eq(kernels_select("sse9", &kernels, &error), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(error.text, "sse9"));
    setenv("KVFERRY_CPU", "reference", 1);
    cr_assert_eq(kernels_select(NULL, &kernels, &error), STATUS_OK);
    cr_assert_str_eq(kernels->name, "reference");
    setenv("KVFERRY_CPU", "fast", 1);
    cr_assert_eq(kernels_select(NULL, &kernels, &error), STATUS_INVALID_ARGUMENT);
    unsetenv("KVFERRY_CPU");
    const struct kernels *list[KERNELS_MAX];
    uint32_t n_list = kernels_list(list, KERNELS_MAX);
    cr_assert_eq(kernels_select(NULL, &kernels, &error), STATUS_OK);
    cr_assert_eq(kernels, list[n_list - 1]);
}
