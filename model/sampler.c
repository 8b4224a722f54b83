#include "model/sampler.h"

#include "kernels/kernels.h"
#include "model/candidates.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct sampler {
    uint32_t vocabulary;
    const struct kernels *kernels;
    float *logits;             /* [vocabulary] after the penalties */
    uint32_t *counts;          /* [vocabulary] all 0 between draws */
    struct candidate *scratch; /* [vocabulary] */
    struct candidates candidates;
};

enum status sampler_create(uint32_t vocabulary, const struct kernels *kernels,
                           struct sampler **sampler_out)
{
    assert(vocabulary > 0 && kernels);
    struct sampler *sampler = calloc(1, sizeof *sampler);
    if (!sampler)
        return STATUS_NO_MEMORY;
    sampler->vocabulary = vocabulary;
    sampler->kernels = kernels;
    sampler->logits = calloc(vocabulary, sizeof *sampler->logits);
    sampler->counts = calloc(vocabulary, sizeof *sampler->counts);
    sampler->scratch = calloc(vocabulary, sizeof *sampler->scratch);
    if (!sampler->logits || !sampler->counts || !sampler->scratch) {
        sampler_destroy(sampler);
        return STATUS_NO_MEMORY;
    }
    *sampler_out = sampler;
    return STATUS_OK;
}

void sampler_destroy(struct sampler *sampler)
{
    if (!sampler)
        return;
    free(sampler->logits);
    free(sampler->counts);
    free(sampler->scratch);
    free(sampler);
}

/* ---- penalties ---- */

static bool has_penalties(const struct sampling_params *params)
{
    return params->repetition_penalty != 1 || params->presence_penalty != 0 ||
           params->frequency_penalty != 0;
}

/* Prompt and generated tokens alike, each id once. */
static void penalise_repetition(struct sampler *sampler, float penalty, const uint32_t *tokens,
                                uint32_t n_tokens)
{
    for (uint32_t i = 0; i < n_tokens; i++) {
        assert(tokens[i] < sampler->vocabulary);
        float *logit = &sampler->logits[tokens[i]];
        if (sampler->counts[tokens[i]]++ == 0)
            *logit = *logit > 0 ? *logit / penalty : *logit * penalty;
    }
    for (uint32_t i = 0; i < n_tokens; i++)
        sampler->counts[tokens[i]] = 0;
}

/* Generated tokens alone. */
static void penalise_use(struct sampler *sampler, const struct sampling_params *params,
                         const uint32_t *generated, uint32_t n_generated)
{
    for (uint32_t i = 0; i < n_generated; i++) {
        assert(generated[i] < sampler->vocabulary);
        sampler->counts[generated[i]]++;
    }
    for (uint32_t i = 0; i < n_generated; i++) {
        uint32_t id = generated[i], count = sampler->counts[id];
        if (count > 0)
            sampler->logits[id] -= params->presence_penalty +
                                   params->frequency_penalty * (float)count;
        sampler->counts[id] = 0;
    }
}

static const float *penalise(struct sampler *sampler, const struct sampling_params *params,
                             const float *logits, const uint32_t *tokens, uint32_t n_prompt,
                             uint32_t n_tokens)
{
    if (!has_penalties(params))
        return logits;
    memcpy(sampler->logits, logits, sampler->vocabulary * sizeof *logits);
    if (params->repetition_penalty != 1)
        penalise_repetition(sampler, params->repetition_penalty, tokens, n_tokens);
    if (params->presence_penalty != 0 || params->frequency_penalty != 0)
        penalise_use(sampler, params, tokens + n_prompt, n_tokens - n_prompt);
    return sampler->logits;
}

/* ---- drawing ---- */

/* splitmix64's output function (Steele, Lea, Flood: "Fast splittable pseudorandom number
 * generators", 2014). */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

/* [0, 1) in steps of 2^-53. A counter, not a stream: each position's number stands alone. */
static double random_of(uint64_t seed, uint32_t position)
{
    const uint64_t golden = 0x9E3779B97F4A7C15u;
    uint64_t bits = mix(mix(seed + golden) + (position + 1ull) * golden);
    return (double)(bits >> 11) * 0x1p-53;
}

/* Fills scratch, by id, with what ranks up to last. NaN and -inf have no rank. */
static uint32_t list_ranks(struct sampler *sampler, const struct logit_row *row,
                           const struct candidate *last)
{
    uint32_t n = 0;
    for (uint32_t id = 0; id < row->vocabulary; id++) {
        float logit = row->logits[id];
        if (logit > last->logit || (logit == last->logit && id <= last->id))
            sampler->scratch[n++] = (struct candidate){logit_row_weight(row, logit), logit, id};
    }
    return n;
}

/* What a draw keeps of a row, and how much that weighs. */
struct rest {
    struct candidate last; /* rank */
    double min_p, sum;
};

/* By top-k, top-p and min-p. */
static struct rest filter_row(struct sampler *sampler, const struct sampling_params *params,
                              const struct logit_row *row)
{
    struct rest rest = {logit_row_floor(row), (double)params->min_p, 0};
    uint32_t n = list_ranks(sampler, row, &rest.last);
    if (params->top_k > 0 || params->top_p < 1) {
        if (params->top_k > 0 && params->top_k < n) {
            ranks_select(sampler->scratch, n, params->top_k);
            n = params->top_k;
        }
        if (params->top_p < 1)
            n = ranks_select_weight(sampler->scratch, n,
                                    (double)params->top_p * ranks_sum(sampler->scratch, n));
        rest.last = ranks_last(sampler->scratch, n);
    }
    for (uint32_t i = 0; i < n; i++)
        rest.sum += sampler->scratch[i].weight >= rest.min_p ? sampler->scratch[i].weight : 0;
    return rest;
}

/* What candidates_draw does, and then goes on behind the candidates, by id. */
static uint32_t draw_from_row(struct sampler *sampler, const struct sampling_params *params,
                              const struct logit_row *row, double unit)
{
    const struct candidates *candidates = &sampler->candidates;
    const struct candidate *bar = &candidates->best[candidates->n - 1];
    bool has_filter = params->top_k > 0 || params->top_p < 1 || params->min_p > 0;
    const struct rest rest = has_filter ? filter_row(sampler, params, row)
                                        : (struct rest){logit_row_floor(row), 0, candidates->sum};
    const double target = unit * rest.sum;
    uint32_t token = candidates->best[0].id;
    double sum = 0;
    for (uint32_t i = 0; i < candidates->n; i++) {
        const struct candidate *best = &candidates->best[i];
        if (ranks_before(&rest.last, best) || best->weight < rest.min_p)
            return token;
        token = best->id;
        sum += best->weight;
        if (sum > target)
            return token;
    }
    for (uint32_t id = 0; id < row->vocabulary; id++) {
        struct candidate next = {0, row->logits[id], id};
        if (!ranks_before(bar, &next) || ranks_before(&rest.last, &next))
            continue;
        next.weight = logit_row_weight(row, next.logit);
        if (next.weight < rest.min_p)
            continue;
        token = id;
        sum += next.weight;
        if (sum > target)
            return token;
    }
    return token;
}

static uint32_t draw(struct sampler *sampler, const struct sampling_params *asked,
                     const float *logits, uint32_t position)
{
    uint32_t likeliest = sampler->kernels->argmax(logits, sampler->vocabulary), token;
    const struct logit_row row = {logits, sampler->vocabulary, logits[likeliest],
                                  asked->temperature};
    /* An infinite or missing largest logit leaves no distribution to draw from. */
    if (row.temperature == 0 || !isfinite(row.largest))
        return likeliest;
    struct sampling_params params = *asked;
    if (params.top_k >= row.vocabulary)
        params.top_k = 0;
    struct candidates *candidates = &sampler->candidates;
    bool is_few = params.top_k > 0 && params.top_k < CANDIDATES_MAX;
    candidates_select(&row, is_few ? params.top_k : CANDIDATES_MAX, candidates);
    if (candidates_need_sum(candidates, &params))
        candidates->sum = logit_row_sum(&row, sampler->kernels);
    double unit = random_of(params.seed, position);
    if (candidates_draw(candidates, &params, unit, &token))
        return token;
    return draw_from_row(sampler, &params, &row, unit);
}

/* ---- log-probabilities: of the model's own distribution, before penalties and filters ---- */

/* One pass with a short insertion sort: n_top is at most LOGPROBS_MAX, and few ids get in. */
static void fill_logprobs(const struct sampler *sampler, const float *logits, uint32_t n_top,
                          uint32_t token, struct token_logprobs *out)
{
    float log_sum = sampler->kernels->log_sum_exp(logits, sampler->vocabulary);
    uint32_t n = 0;
    for (uint32_t id = 0; id < sampler->vocabulary; id++) {
        float logit = logits[id];
        if (isnan(logit) || (n == n_top && !(logit > logits[out->top_ids[n - 1]])))
            continue;
        uint32_t at = n < n_top ? n++ : n - 1;
        for (; at > 0 && logit > logits[out->top_ids[at - 1]]; at--)
            out->top_ids[at] = out->top_ids[at - 1];
        out->top_ids[at] = id;
    }
    out->n_top = n;
    for (uint32_t i = 0; i < n; i++)
        out->top_logprobs[i] = logits[out->top_ids[i]] - log_sum;
    out->logprob = logits[token] - log_sum;
}

uint32_t sampler_draw(struct sampler *sampler, const struct sampling_params *params,
                      const float *logits, const uint32_t *tokens, uint32_t n_prompt,
                      uint32_t n_tokens, struct token_logprobs *logprobs_out)
{
    assert(n_prompt <= n_tokens && params->n_logprobs <= LOGPROBS_MAX);
    assert(params->n_logprobs == 0 || logprobs_out);
    const float *penalised = penalise(sampler, params, logits, tokens, n_prompt, n_tokens);
    uint32_t token = draw(sampler, params, penalised, n_tokens);
    if (params->n_logprobs > 0)
        fill_logprobs(sampler, logits, params->n_logprobs, token, logprobs_out);
    return token;
}
