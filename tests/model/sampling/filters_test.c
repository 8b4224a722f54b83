/* filters: what the definitions say, on lists of any order; ties stay together; nothing shows in a later draw. */
#include "base/random.h"
#include "kernels/kernels.h"
#include "model/sampling/filters.h"
#include "model/sampling/sampler.h"
#include "tests/runner/one_thread.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

TestSuite(filters, .description = ONE_THREAD);

enum { N_MAX = 400 };

static double uniform(struct random *random)
{
    return (double)(1 + random_below(random, 1u << 30)) / (1u << 30);
}

/* ---- the definitions, with a sort, on probabilities ---- */

struct token {
    double p, distance;
    uint32_t id;
    bool is_kept;
};

static double entropy(const struct token *tokens, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum -= tokens[i].is_kept ? tokens[i].p * log(tokens[i].p) : 0;
    return sum;
}

static void normalise(struct token *tokens, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += tokens[i].is_kept ? tokens[i].p : 0;
    for (uint32_t i = 0; i < n; i++)
        tokens[i].p /= sum;
}

/* False: two answers are equally good in floating point. */
static bool typical(struct token *tokens, uint32_t n, double mass)
{
    const double h = entropy(tokens, n);
    for (uint32_t i = 0; i < n; i++)
        tokens[i].distance = fabs(-log(tokens[i].p) - h);
    for (uint32_t i = 0; i < n; i++) {
        double nearer = 0;
        for (uint32_t j = 0; j < n; j++) {
            const double over = tokens[j].distance - tokens[i].distance;
            if (fabs(over) < 1e-5 && tokens[i].p != tokens[j].p)
                return false;
            nearer += over < 0 && tokens[i].p != tokens[j].p ? tokens[j].p : 0;
        }
        if (fabs(nearer - mass) < 1e-9)
            return false;
        tokens[i].is_kept = nearer < mass;
    }
    return true;
}

static bool at_least(struct token *tokens, uint32_t n, double least)
{
    double most = 0;
    for (uint32_t i = 0; i < n; i++)
        most = tokens[i].is_kept && tokens[i].p > most ? tokens[i].p : most;
    for (uint32_t i = 0; i < n; i++) {
        if (fabs(tokens[i].p - least) < 1e-12)
            return false;
        tokens[i].is_kept = tokens[i].is_kept && (tokens[i].p >= least || tokens[i].p == most);
    }
    return true;
}

static bool by_definition(const struct sampling_params *params, struct token *tokens, uint32_t n)
{
    normalise(tokens, n);
    if (params->typical_p < 1 && !typical(tokens, n, (double)params->typical_p))
        return false;
    normalise(tokens, n);
    if (params->epsilon_cutoff > 0 && !at_least(tokens, n, (double)params->epsilon_cutoff))
        return false;
    normalise(tokens, n);
    const double e = (double)params->eta_cutoff;
    return e == 0 || at_least(tokens, n, fmin(e, sqrt(e) * exp(-entropy(tokens, n))));
}

/* ---- lists ---- */

static uint32_t random_list(struct random *random, struct candidate *list)
{
    const uint32_t n = 1 + random_below(random, N_MAX);
    const double scale = 0.1 + 6 * uniform(random);
    const bool has_equals = random_below(random, 2);
    for (uint32_t i = 0; i < n; i++) {
        double logit = -scale * uniform(random);
        if (has_equals)
            logit = round(logit * 4) / 4;
        list[i] = (struct candidate){exp(logit), (float)logit, i * 7 % N_MAX};
    }
    return n;
}

static struct sampling_params random_filters(struct random *random)
{
    struct sampling_params params = SAMPLING_GREEDY;
    if (random_below(random, 2))
        params.typical_p = (float)uniform(random);
    if (random_below(random, 2))
        params.epsilon_cutoff = (float)(uniform(random) * uniform(random) * 0.99);
    if (random_below(random, 2))
        params.eta_cutoff = (float)(uniform(random) * uniform(random) * 0.99);
    return params;
}

Test(filters, keep_what_the_definitions_say)
{
    static struct candidate list[N_MAX], before[N_MAX], room[N_MAX];
    static struct token tokens[N_MAX];
    uint32_t n_compared = 0, n_cut = 0;
    struct random random;
    random_init(&random, 11);
    for (uint32_t round = 0; round < 1500; round++) {
        const uint32_t n = random_list(&random, list);
        const struct sampling_params params = random_filters(&random);
        memcpy(before, list, sizeof list);
        for (uint32_t i = 0; i < n; i++)
            tokens[i] = (struct token){list[i].weight, 0, list[i].id, true};
        if (!by_definition(&params, tokens, n))
            continue;
        const uint32_t n_kept = filters_are_set(&params) ? filters_keep(&params, list, n, room) : n;
        uint32_t next = 0;
        for (uint32_t i = 0; i < n; i++) {
            if (!tokens[i].is_kept)
                continue;
            cr_assert_lt(next, n_kept, "round %u keeps %u", round, n_kept);
            cr_assert_eq(list[next].id, before[i].id, "round %u, place %u", round, next);
            next++;
        }
        cr_assert_eq(next, n_kept, "round %u", round);
        n_compared++;
        n_cut += n_kept < n;
    }
    cr_assert_gt(n_compared, 700, "%u", n_compared);
    cr_assert_gt(n_cut, 400, "%u", n_cut);
}

Test(filters, one_token_and_equal_tokens_stay)
{
    struct sampling_params params = SAMPLING_GREEDY;
    struct candidate one[1] = {{1, 0, 5}}, equal[4], room[4];
    params.typical_p = 1e-6f;
    params.epsilon_cutoff = params.eta_cutoff = 0.99f;
    cr_assert(filters_are_set(&params));
    cr_assert_eq(filters_keep(&params, one, 1, room), 1);
    for (uint32_t i = 0; i < 4; i++)
        equal[i] = (struct candidate){0.5, 2, i};
    cr_assert_eq(filters_keep(&params, equal, 4, room), 4);
    cr_assert_not(filters_are_set(&SAMPLING_GREEDY));
}

/* The likeliest token alone is less typical of such a row than the many others. */
Test(filters, a_draw_may_leave_the_likeliest_out_and_the_next_draw_has_it)
{
    enum { VOCABULARY = 1000 };
    static float logits[VOCABULARY];
    struct sampler *sampler;
    const struct kernels *kernels;
    struct sampling_params params = SAMPLING_GREEDY;
    static const uint32_t NO_TOKENS[64];
    uint32_t n_far = 0, n_first = 0;
    cr_assert_eq(kernels_select(NULL, &kernels, NULL), STATUS_OK);
    cr_assert_eq(sampler_create(VOCABULARY, kernels, &sampler), STATUS_OK);
    logits[7] = 4;
    params.temperature = 1;
    params.typical_p = 0.5f;
    for (uint32_t i = 0; i < 64; i++) {
        const uint32_t token = sampler_draw(sampler, &params, logits, NO_TOKENS, i, i, NULL);
        cr_assert_neq(token, 7);
        n_far += token > 300;
    }
    cr_assert_gt(n_far, 20, "tokens behind the candidates are drawn, too");
    params.typical_p = 1;
    for (uint32_t i = 0; i < 64; i++)
        n_first += sampler_draw(sampler, &params, logits, NO_TOKENS, i, i, NULL) == 7;
    cr_assert_geq(n_first, 1);
    sampler_destroy(sampler);
}
