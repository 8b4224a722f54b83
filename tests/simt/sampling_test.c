/* sampling: of a row of logits a device hands back what model/sampling/candidates.c and model/sampling/sampler.c find themselves. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/sampling_parameters.h"
#include "model/sampling/candidates.h"
#include "tests/simt/device_array.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static_assert(SAMPLING_BEST == CANDIDATES_MAX && SAMPLING_TOP_MAX == LOGPROBS_MAX, "limits");

enum { ROWS = 4 };

struct sampled {
    struct device_array logits, rows, penalties, scratch, results;
};

/* NaN is behind all numbers. */
static int by_rank(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (isnan(x->logit) != isnan(y->logit))
        return isnan(x->logit) ? 1 : -1;
    if (isnan(x->logit))
        return x->id < y->id ? -1 : 1;
    return ranks_before(x, y) ? -1 : 1;
}

static struct candidate *ranked(const float *logits, uint32_t n)
{
    struct candidate *all = malloc(n * sizeof *all);
    for (uint32_t id = 0; id < n; id++)
        all[id] = (struct candidate){0, logits[id], id};
    qsort(all, n, sizeof *all, by_rank);
    return all;
}

static void assert_ranks(const float *logits, uint32_t n, const uint32_t *ids, const float *got,
                         uint32_t n_got)
{
    struct candidate *all = ranked(logits, n);
    for (uint32_t i = 0; i < n_got; i++) {
        cr_assert_eq(ids[i], all[i].id, "rank %u of %u is %u, not %u", i, n, ids[i], all[i].id);
        cr_assert_eq(memcmp(&got[i], &all[i].logit, sizeof *got), 0);
    }
    free(all);
}

/* In double, as the host defines them; NaN if one of them is. */
static double sum_of(const float *logits, uint32_t n, double largest, double temperature)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += exp(((double)logits[i] - largest) / temperature);
    return sum;
}

static bool is_near(double got, double expected, double bound)
{
    return isnan(expected) ? isnan(got) : fabs(got - expected) <= bound;
}

static float largest_of(const float *logits, uint32_t n)
{
    float largest = NAN;
    for (uint32_t i = 0; i < n; i++)
        largest = fmaxf(largest, logits[i]);
    return largest;
}

static void assert_result(const struct sampling_result *result, const struct sampling_row *row,
                          const struct sampling_penalty *penalties, const float *raw, uint32_t n)
{
    if (row->n_best == 0) {
        for (size_t i = 0; i < sizeof *result; i++)
            cr_assert_eq(((const uint8_t *)result)[i], 0xa5, "nothing was wanted of the row");
        return;
    }
    float *logits = malloc(n * sizeof *logits);
    memcpy(logits, raw, n * sizeof *logits);
    for (uint32_t i = 0; i < row->n_penalties; i++) {
        const struct sampling_penalty *penalty = &penalties[row->first_penalty + i];
        float *logit = &logits[penalty->id];
        *logit = *logit > 0 ? *logit / penalty->factor : *logit * penalty->factor;
        *logit -= penalty->subtract;
    }
    const float raw_largest = largest_of(raw, n), largest = largest_of(logits, n);
    cr_assert_eq(result->n, n < row->n_best ? n : row->n_best);
    cr_assert_eq(result->n_top, n < row->n_top ? n : row->n_top);
    assert_ranks(logits, n, result->ids, result->logits, result->n);
    assert_ranks(raw, n, result->top_ids, result->top_logits, result->n_top);
    for (uint32_t i = 0; i < result->n; i++)
        cr_assert_eq(memcmp(&result->raw[i], &raw[result->ids[i]], sizeof(float)), 0);
    cr_assert_eq(memcmp(&result->largest, &largest, sizeof largest) && !isnan(largest), 0);
    const double lse = (double)raw_largest + log(sum_of(raw, n, (double)raw_largest, 1));
    if (isfinite(raw_largest))
        cr_assert(is_near((double)result->log_sum_exp, lse, 1e-5 * fmax(1, fabs(lse))),
                  "log_sum_exp is %g, not %g", (double)result->log_sum_exp, lse);
    else
        cr_assert(isnan(raw_largest) ? isnan(result->log_sum_exp)
                                     : result->log_sum_exp == raw_largest);
    const bool has_sum = isfinite(largest) && row->temperature > 0;
    const double sum = has_sum ? sum_of(logits, n, (double)largest, (double)row->temperature) : 0;
    cr_assert(is_near((double)result->sum, sum, 1e-5 * sum), "sum is %g, not %g",
              (double)result->sum, sum);
    free(logits);
}

/* What fills a row: numbers, many equals, the values that are none. */
static float logit_at(uint32_t kind, uint32_t row, uint32_t id)
{
    const float x = number_of(row + 10 * kind, id);
    switch (kind) {
    case 0:
        return 12 * x;
    case 1: /* far more equals than are wanted, and both zeros */
        return roundf(2 * x) * (id % 2 ? 1.f : -1.f);
    case 2:
        return id % 5 == 0 ? NAN : id % 7 == 0 ? -INFINITY : 30 * x;
    case 3:
        return NAN;
    case 4:
        return id == 3 ? INFINITY : x;
    default:
        return row == 0 ? -INFINITY : 0.25f;
    }
}

static void check(uint32_t kind, uint32_t n, uint32_t schedule)
{
    struct device *device = schedule_open(schedule);
    const uint32_t stride = n + 5;
    struct sampling_penalty penalties[8];
    const uint32_t n_penalties = n < 8 ? n : 8;
    for (uint32_t i = 0; i < n_penalties; i++)
        penalties[i] = (struct sampling_penalty){(i * (n / n_penalties) + n / 2) % n,
                                                 i % 3 ? 1.3f : 1, i % 2 ? 0.75f : 0};
    const struct sampling_row rows[ROWS] = {{0, 0, 0.8f, 5, SAMPLING_BEST},
                                            {0, n_penalties, 1, SAMPLING_TOP_MAX, SAMPLING_BEST},
                                            {1, n_penalties - 1, kind ? 0.1f : 0, 0, 1 + kind * 40},
                                            {0, n_penalties, 1, SAMPLING_TOP_MAX, 0}};
    struct sampled s = {
        .logits = device_array_create(device, (size_t)ROWS * stride * sizeof(float)),
        .rows = device_array_create(device, sizeof rows),
        .penalties = device_array_create(device, sizeof penalties),
        .scratch = device_array_create(device, (size_t)ROWS * n * sizeof(float)),
        .results = device_array_create(device, ROWS * sizeof(struct sampling_result)),
    };
    memcpy(s.rows.data, rows, sizeof rows);
    memcpy(s.penalties.data, penalties, sizeof penalties);
    for (uint32_t r = 0; r < ROWS; r++)
        for (uint32_t id = 0; id < n; id++)
            ((float *)s.logits.data)[(size_t)r * stride + id] = logit_at(kind, r, id);
    void *before = malloc(s.logits.bytes);
    memcpy(before, s.logits.data, s.logits.bytes);
    memset(s.results.data, 0xa5, s.results.bytes);
    const struct candidates_parameters parameters = {
        s.logits.data, s.rows.data, s.penalties.data, s.scratch.data, s.results.data, stride, n, 0};
    cuda_candidates(&parameters, ROWS);
    cr_assert_arr_eq(before, s.logits.data, s.logits.bytes, "rows stay as they are");
    for (uint32_t r = 0; r < ROWS; r++)
        assert_result((const struct sampling_result *)s.results.data + r, &rows[r], penalties,
                      (const float *)s.logits.data + (size_t)r * stride, n);
    free(before);
    struct device_array *all[] = {&s.logits, &s.rows, &s.penalties, &s.scratch, &s.results};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        device_array_destroy(all[i]);
    schedule_close(device);
}

Test(sampling, candidates_are_the_first_ranks_and_the_sums_of_the_row)
{
    const uint32_t sizes[] = {1, 7, 255, 256, 257, 511, 513, 3000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (uint32_t kind = 0; kind < 6; kind++)
            check(kind, sizes[i], (uint32_t)(i + kind) % SCHEDULES);
}

Test(sampling, a_large_vocabulary_in_every_schedule)
{
    for (uint32_t schedule = 0; schedule < SCHEDULES; schedule++)
        check(0, 50257, schedule);
}
