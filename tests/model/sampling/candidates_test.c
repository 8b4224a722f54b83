/* candidates: the first ranks of any row; a draw from them and, behind them, from the row is the one that
 * the formula in sampler.h gives, with honest frequencies. */
#include "base/random.h"
#include "kernels/kernels.h"
#include "model/sampling/candidates.h"
#include "model/sampling/sampler.h"
#include "tests/runner/one_thread.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(candidates, .description = ONE_THREAD);

enum { VOCABULARY_MAX = 5000, RANKED = 256 };

/* The whole of a row is summed in float32. */
#define NEAR 3e-6L

static struct sampling_params sampled(float temperature, uint64_t seed)
{
    struct sampling_params params = SAMPLING_GREEDY;
    params.temperature = temperature;
    params.seed = seed;
    return params;
}

static struct sampler *new_sampler(uint32_t vocabulary)
{
    struct sampler *sampler;
    const struct kernels *kernels;
    cr_assert_eq(kernels_select(NULL, &kernels, NULL), STATUS_OK);
    cr_assert_eq(sampler_create(vocabulary, kernels, &sampler), STATUS_OK);
    return sampler;
}

static double uniform(struct random *random)
{
    return (double)random_below(random, 1u << 30) / (1u << 30);
}

/* ---- the formula, as it is written, with a sort ---- */

static const float *ranked_logits; /* of compare_ids */

static int compare_ids(const void *a, const void *b)
{
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    if (ranked_logits[i] != ranked_logits[j])
        return ranked_logits[i] > ranked_logits[j] ? -1 : 1;
    return i < j ? -1 : i > j;
}

static int compare_numbers(const void *a, const void *b)
{
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    return i < j ? -1 : i > j;
}

static uint64_t splitmix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

static long double unit_of(uint64_t seed, uint32_t position)
{
    const uint64_t g = 0x9e3779b97f4a7c15ull;
    return (long double)(splitmix(splitmix(seed + g) + ((uint64_t)position + 1) * g) >> 11) /
           9007199254740992.0L;
}

/* Ids that can be drawn, by rank. */
static uint32_t rank_ids(const float *logits, uint32_t vocabulary, float temperature,
                         uint32_t *ids_out)
{
    uint32_t n = 0, likely = 0;
    ranked_logits = logits;
    for (uint32_t i = 0; i < vocabulary; i++)
        if (!isnan(logits[i]))
            ids_out[n++] = i;
    qsort(ids_out, n, sizeof *ids_out, compare_ids);
    while (likely < n && ((long double)logits[ids_out[0]] - (long double)logits[ids_out[likely]]) /
                                 (long double)temperature <=
                             64 * 0.693147180559945309417L)
        likely++;
    return likely;
}

/* How many of the ranks the filters leave; UINT32_MAX: two answers are equally good in floating point. */
static uint32_t filter(const struct sampling_params *params, const long double *weights, uint32_t n)
{
    long double all = 0, sum = 0;
    if (params->top_k > 0 && params->top_k < n)
        n = params->top_k;
    for (uint32_t i = 0; i < n; i++)
        all += weights[i];
    for (uint32_t i = 0; i < n && params->top_p < 1; i++) {
        sum += weights[i];
        if (fabsl(sum / all - (long double)params->top_p) < NEAR)
            return UINT32_MAX;
        if (sum >= (long double)params->top_p * all)
            n = i + 1;
    }
    while (weights[n - 1] < (long double)params->min_p)
        n--;
    return n;
}

/* UINT32_MAX: u lies on a border as far as doubles can tell. is_behind_out: behind the RANKED first. */
static uint32_t formula(const struct sampling_params *params, const float *logits,
                        uint32_t vocabulary, uint32_t position, bool *is_behind_out)
{
    static uint32_t ids[VOCABULARY_MAX];
    static long double weights[VOCABULARY_MAX], by_id[VOCABULARY_MAX];
    uint32_t n = rank_ids(logits, vocabulary, params->temperature, ids);
    long double all = 0, sum = 0;
    for (uint32_t i = 0; i < n; i++)
        by_id[ids[i]] = weights[i] = expl(((long double)logits[ids[i]] - logits[ids[0]]) /
                                          (long double)params->temperature);
    n = filter(params, weights, n);
    if (n == UINT32_MAX)
        return UINT32_MAX;
    if (n > RANKED)
        qsort(ids + RANKED, n - RANKED, sizeof *ids, compare_numbers);
    for (uint32_t i = 0; i < n; i++)
        all += by_id[ids[i]];
    for (uint32_t i = 0; i < n; i++) {
        sum += by_id[ids[i]];
        long double over = sum / all - unit_of(params->seed, position);
        *is_behind_out = i >= RANKED;
        if (fabsl(over) < NEAR)
            return UINT32_MAX;
        if (over > 0)
            return ids[i];
    }
    return UINT32_MAX;
}

static void random_row(struct random *random, float *logits, uint32_t vocabulary)
{
    static const float SCALES[] = {0.01f, 0.5f, 2, 8};
    const float scale = SCALES[random_below(random, 4)];
    const bool has_equals = random_below(random, 3) == 0;
    for (uint32_t i = 0; i < vocabulary; i++) {
        logits[i] = scale * (float)(uniform(random) + uniform(random) + uniform(random) - 1.5);
        if (has_equals)
            logits[i] = roundf(logits[i] * 4) / 4;
        if (random_below(random, 50) == 0)
            logits[i] = random_below(random, 2) ? NAN : -INFINITY;
    }
    logits[random_below(random, vocabulary)] = scale; /* one is a number */
}

static struct sampling_params random_params(struct random *random, uint32_t vocabulary)
{
    static const float TEMPERATURES[] = {0.2f, 1, 1, 3};
    static const float TOP_P[] = {0.3f, 0.9f, 0.99f, 1, 1, 1}, MIN_P[] = {0, 0, 0, 0.01f, 0.5f};
    struct sampling_params params = sampled(TEMPERATURES[random_below(random, 4)],
                                            random_below(random, 1u << 30));
    const uint32_t top_k[] = {0, 0, 1, 40, 255, 256, 257, 400, vocabulary};
    params.top_k = top_k[random_below(random, 9)];
    params.top_p = TOP_P[random_below(random, 6)];
    params.min_p = MIN_P[random_below(random, 5)];
    return params;
}

Test(candidates, the_sampler_draws_what_the_formula_says)
{
    static const uint32_t VOCABULARIES[] = {1, 256, 257, 300, 400, 600, 1000, VOCABULARY_MAX};
    static float logits[VOCABULARY_MAX];
    static const uint32_t NO_TOKENS[64];
    uint32_t n_behind = 0, n_among = 0;
    struct random random;
    random_init(&random, 42);
    for (uint32_t i = 0; i < 1600; i++) {
        uint32_t vocabulary = VOCABULARIES[i % 8], position = i % 64;
        struct sampler *sampler = new_sampler(vocabulary);
        random_row(&random, logits, vocabulary);
        struct sampling_params params = random_params(&random, vocabulary);
        bool is_behind = false;
        uint32_t expected = formula(&params, logits, vocabulary, position, &is_behind);
        uint32_t token = sampler_draw(sampler, &params, logits, NO_TOKENS, position, position,
                                      NULL);
        sampler_destroy(sampler);
        if (expected == UINT32_MAX)
            continue;
        n_behind += is_behind;
        n_among += !is_behind;
        cr_assert_eq(token, expected,
                     "row %u: %u, not %u; vocabulary %u temperature %g top_k %u top_p %g min_p %g",
                     i, token, expected, vocabulary, (double)params.temperature, params.top_k,
                     (double)params.top_p, (double)params.min_p);
    }
    cr_assert_gt(n_behind, 50, "%u", n_behind);
    cr_assert_gt(n_among, 1000);
}

/* ---- selection ---- */

static struct logit_row row_of(const float *logits, uint32_t vocabulary, float temperature)
{
    float largest = -INFINITY;
    for (uint32_t i = 0; i < vocabulary; i++)
        if (logits[i] > largest)
            largest = logits[i];
    return (struct logit_row){logits, vocabulary, largest, temperature};
}

static void expect_first_ranks(const struct logit_row *row, uint32_t n_wanted)
{
    static uint32_t ids[VOCABULARY_MAX];
    struct candidates candidates;
    uint32_t n = rank_ids(row->logits, row->vocabulary, row->temperature, ids);
    candidates_select(row, n_wanted, &candidates);
    cr_assert_eq(candidates.n, n < n_wanted ? n : n_wanted);
    cr_assert_eq(candidates.is_all, n <= n_wanted, "%u of %u", n_wanted, n);
    for (uint32_t i = 0; i < candidates.n; i++) {
        const struct candidate *best = &candidates.best[i];
        cr_assert_eq(best->id, ids[i], "rank %u of %u", i, n);
        cr_assert_float_eq(
            best->weight,
            exp(((double)best->logit - (double)row->largest) / (double)row->temperature), 1e-15);
    }
}

Test(candidates, are_the_first_ranks_in_order)
{
    static const uint32_t VOCABULARIES[] = {1, 2, 255, 256, 257, 511, 512, 513, VOCABULARY_MAX};
    static float logits[VOCABULARY_MAX];
    struct random random;
    random_init(&random, 7);
    for (uint32_t i = 0; i < 90; i++) {
        uint32_t vocabulary = VOCABULARIES[i % 9];
        random_row(&random, logits, vocabulary);
        const struct logit_row row = row_of(logits, vocabulary, 1);
        expect_first_ranks(&row, CANDIDATES_MAX);
        expect_first_ranks(&row, 1 + i % 5);
    }
}

Test(candidates, no_order_of_logits_is_a_bad_one)
{
    static float logits[VOCABULARY_MAX];
    for (int order = 0; order < 3; order++) { /* rising, falling, equal */
        for (uint32_t i = 0; i < VOCABULARY_MAX; i++)
            logits[i] = (float)(1 - order % 3) * (float)i * 1e-3f;
        const struct logit_row row = row_of(logits, VOCABULARY_MAX, 1);
        expect_first_ranks(&row, CANDIDATES_MAX);
    }
}

Test(candidates, the_sum_of_a_row_is_that_of_its_weights)
{
    static float logits[VOCABULARY_MAX];
    static const float TEMPERATURES[] = {1e-40f, 1e-30f, 0.2f, 1, 100};
    const struct kernels *kernels;
    struct random random;
    random_init(&random, 3);
    cr_assert_eq(kernels_select(NULL, &kernels, NULL), STATUS_OK);
    for (uint32_t i = 0; i < 60; i++) {
        const uint32_t vocabulary = i % 3 ? VOCABULARY_MAX : 1 + i;
        double expected = 0;
        random_row(&random, logits, vocabulary);
        const struct logit_row row = row_of(logits, vocabulary, TEMPERATURES[i % 5]);
        for (uint32_t id = 0; id < vocabulary; id++)
            expected += isnan(logits[id]) ? 0 : logit_row_weight(&row, logits[id]);
        cr_assert_float_eq(logit_row_sum(&row, kernels) / expected, 1, 2e-6, "row %u", i);
    }
}

/* ---- what a draw needs ---- */

/* Weights 1, 1/2, 1/2, ... of 512 tokens: the sum is 256.5, that of the candidates 128.5. */
static struct candidates flat_candidates(void)
{
    static float logits[512];
    for (uint32_t i = 1; i < 512; i++)
        logits[i] = -0.6931471805599453f;
    const struct logit_row row = row_of(logits, 512, 1);
    const struct kernels *kernels;
    struct candidates candidates;
    cr_assert_eq(kernels_select(NULL, &kernels, NULL), STATUS_OK);
    candidates_select(&row, CANDIDATES_MAX, &candidates);
    candidates.sum = logit_row_sum(&row, kernels);
    cr_assert_float_eq(candidates.sum, 256.5, 1e-4);
    return candidates;
}

Test(candidates, only_what_falls_behind_them_wants_the_row)
{
    const struct candidates candidates = flat_candidates();
    struct sampling_params params = sampled(1, 0);
    uint32_t token = 9999;
    cr_assert(candidates_draw(&candidates, &params, 128.2 / 256.5, &token));
    cr_assert_eq(token, 255);
    cr_assert_not(candidates_draw(&candidates, &params, 128.7 / 256.5, &token));
    cr_assert_eq(token, 255, "nothing is said then");
    cr_assert(candidates_draw(&candidates, &params, 0, &token));
    cr_assert_eq(token, 0);
}

Test(candidates, filters_that_keep_more_want_the_row)
{
    const struct candidates candidates = flat_candidates();
    struct sampling_params params = sampled(1, 0);
    uint32_t token;
    params.top_p = 0.49f;
    cr_expect(candidates_need_sum(&candidates, &params));
    cr_expect(candidates_draw(&candidates, &params, 0.999, &token));
    params.top_p = 0.51f;
    cr_expect_not(candidates_draw(&candidates, &params, 0.001, &token));
    params.top_p = 1;
    params.min_p = 0.49f;
    cr_expect_not(candidates_draw(&candidates, &params, 0.001, &token));
    params.min_p = 0.51f;
    cr_expect_not(candidates_need_sum(&candidates, &params), "the filter cuts among them");
    cr_expect(candidates_draw(&candidates, &params, 0.999, &token));
    cr_expect_eq(token, 0);
    params.min_p = 0;
    params.top_k = 257;
    cr_expect_not(candidates_draw(&candidates, &params, 0.001, &token));
    params.top_k = 256;
    cr_expect_not(candidates_need_sum(&candidates, &params));
    cr_expect(candidates_draw(&candidates, &params, 0.999, &token));
    cr_expect_eq(token, 255);
}

Test(candidates, those_of_a_device_draw_the_same_tokens)
{
    struct candidates exact = flat_candidates(), rounded = exact;
    const struct sampling_params params = sampled(1, 0);
    rounded.sum = (double)expf(logf((float)exact.sum)); /* a log-sum-exp of float32 */
    uint32_t n_other = 0, a, b;
    for (uint32_t i = 0; i < 10000; i++) {
        const double unit = (double)unit_of(5, i) / 2.1;
        cr_assert(candidates_draw(&exact, &params, unit, &a));
        cr_assert(candidates_draw(&rounded, &params, unit, &b));
        n_other += a != b;
    }
    cr_assert_leq(n_other, 2, "%u: only what lies on a border as far as float32 tells", n_other);
}

/* ---- frequencies ---- */

/* Of which 55 % are behind the candidates. */
#ifndef KVFERRY_SANITIZED /* a result, of code that the tests above run, too */
Test(candidates, frequencies_of_a_flat_row_follow_the_probabilities)
{
    enum { V = 1000, N = 200000 };
    static float logits[V];
    static double expected[V];
    static uint32_t counts[V];
    double all = 0, chi_square = 0, behind = 0;
    for (uint32_t i = 0; i < V; i++) {
        logits[i] = (float)((i * 617u) % V) / V; /* each value once */
        all += expected[i] = exp((double)logits[i]);
    }
    struct sampler *sampler = new_sampler(V);
    for (uint32_t i = 0; i < N; i++) {
        const struct sampling_params params = sampled(1, i);
        counts[sampler_draw(sampler, &params, logits, NULL, 0, 0, NULL)]++;
    }
    sampler_destroy(sampler);
    for (uint32_t i = 0; i < V; i++) {
        double wanted = N * expected[i] / all;
        chi_square += (counts[i] - wanted) * (counts[i] - wanted) / wanted;
        behind += logits[i] < (float)(V - RANKED) / V ? counts[i] : 0;
    }
    /* 999 degrees of freedom: 1143.9 at p = 0.001 above, 863.0 below. */
    cr_assert(chi_square < 1143.9 && chi_square > 863, "chi-square %g", chi_square);
    cr_assert_gt(behind, N / 2);
}
#endif
