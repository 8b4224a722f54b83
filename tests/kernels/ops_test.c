/* the smallest operators: the formulas of kernel_set.h in float64, tails and guard pages, and what a
 * name selects. */
#include "kernels/kernels.h"
#include "tests/kernels/support/guarded.h"
#include "tests/kernels/support/values.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

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
                struct embedding embedding = {.table = table.data,
                                              .dtype = dtype,
                                              .ids = ids,
                                              .y = y.data,
                                              .y_stride = n,
                                              .n_tokens = 4,
                                              .n = n,
                                              .n_rows = 5};
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

/* All sets from avx2 on must agree to the bit, and leave what lies between the rows alone. */
Test(ops, scaled_add_and_scale)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n_list = kernels_list(list, KERNELS_MAX);
    static const float caps[] = {0, 1.5f, 30};
    for (size_t s = 0; s < COUNT(sizes); s++)
        for (uint32_t k = 0; k < n_list; k++) {
            const uint32_t n = sizes[s];
            struct guarded x = rows(3, n, s), y = rows(3, n, s + 50), before = rows(3, n, s + 50);
            float *got = y.data;
            const float *from = x.data, *old = before.data;
            list[k]->scaled_add(NULL, &(struct scaled_add){.x = from,
                                                           .x_stride = n,
                                                           .y = got,
                                                           .y_stride = 2 * (uint64_t)n,
                                                           .n_tokens = 2,
                                                           .n = n,
                                                           .scale = 0.22f});
            for (uint32_t i = 0; i < n; i++) {
                cr_assert_eq(got[i], old[i] + 0.22f * from[i], "%s", list[k]->name);
                cr_assert_eq(got[n + i], old[n + i]);
                cr_assert_eq(got[2 * n + i], old[2 * n + i] + 0.22f * from[n + i]);
            }
            for (size_t c = 0; c < COUNT(caps); c++) {
                memcpy(y.data, before.data, 3 * n * sizeof(float));
                list[k]->scale(NULL, &(struct scale){.x = got,
                                                     .x_stride = 2 * (uint64_t)n,
                                                     .n_tokens = 2,
                                                     .n = n,
                                                     .scale = 11.5f,
                                                     .soft_cap = caps[c]});
                for (uint32_t i = 0; i < 3 * n; i++) {
                    double expected = (double)old[i];
                    if (i / n != 1)
                        expected = (double)(11.5f * old[i]);
                    if (i / n != 1 && c > 0)
                        expected = (double)caps[c] * tanh(expected / (double)caps[c]);
                    assert_close("scale", n, got[i], expected);
                }
            }
            guarded_destroy(&x);
            guarded_destroy(&y);
            guarded_destroy(&before);
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

/* The last of a list is what a machine gets that names nothing: of sets without AVX2 the one that has no multiply-add to
 * imitate. */
Test(ops, a_machine_without_avx2_gets_sse2)
{
#ifdef __x86_64__
    const struct kernels *list[KERNELS_MAX];
    cr_assert_geq(kernels_list(list, KERNELS_MAX), 3);
    cr_assert_str_eq(list[2]->name, "sse2");
#endif
}
