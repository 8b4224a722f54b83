/*
 * rows - matrices whose rows are apart: what lies between them is NaN, and must stay so.
 */
#pragma once

#include "kernels/kernels.h"
#include "tests/kernels/support/attention_list.h"
#include "tests/kernels/support/guarded.h"
#include "tests/kernels/support/values.h"

#include <criterion/criterion.h>
#include <string.h>

enum { ROWS_APART = 3 };

#define COUNT(array) (sizeof array / sizeof array[0])

/* Lengths around those of registers. */
static const uint32_t row_sizes[] = {1, 2, 8, 15, 16, 17, 31, 32, 33, 64, 100, 576};

struct rows {
    struct guarded guarded; /* ends with the last row */
    float *data;
    uint64_t stride;
    uint32_t n_rows, n;
};

static inline struct rows rows_create(uint32_t n_rows, uint32_t n)
{
    uint64_t stride = n + ROWS_APART;
    struct rows rows = {.stride = stride, .n_rows = n_rows, .n = n};
    rows.guarded = guarded_create(((n_rows - 1) * stride + n) * sizeof(float));
    rows.data = rows.guarded.data;
    return rows;
}

static inline struct rows rows_random(uint32_t n_rows, uint32_t n, uint64_t seed)
{
    struct rows rows = rows_create(n_rows, n);
    for (uint32_t r = 0; r < n_rows; r++)
        for (uint32_t i = 0; i < n; i++)
            rows.data[r * rows.stride + i] = 4 * values_at(seed, r, i);
    return rows;
}

static inline void rows_destroy(struct rows *rows)
{
    guarded_destroy(&rows->guarded);
}

static inline void rows_assert_gaps(const struct rows *rows, const char *name)
{
    for (uint32_t r = 0; r + 1 < rows->n_rows; r++)
        for (uint32_t i = rows->n; i < rows->stride; i++)
            cr_assert(isnan(rows->data[r * rows->stride + i]), "%s, %u elements: row %u, gap", name,
                      rows->n, r);
}

static inline void rows_assert_equal(const struct rows *a, const struct rows *b, const char *what)
{
    for (uint32_t r = 0; r < a->n_rows; r++)
        cr_assert_arr_eq(a->data + r * a->stride, b->data + r * b->stride, a->n * sizeof(float),
                         "%s, %u elements: row %u", what, a->n, r);
}

/* Not so the reference, in float64, and a set that rounds products. */
static inline bool has_common_bits(const struct kernels *kernels)
{
    return strcmp(kernels->name, "reference") != 0 && !rounds_products(kernels->name);
}
