#include "model/sampler.h"

#include "kernels/kernels.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct candidate {
    double weight; /* exp((logit - largest) / temperature) */
    float logit;
    uint32_t id;
};

struct sampler {
    uint32_t vocabulary;
    const struct kernels *kernels;
    float *logits;                /* [vocabulary] after the penalties */
    uint32_t *counts;             /* [vocabulary] all 0 between draws */
    struct candidate *candidates; /* [vocabulary] */
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
    sampler->candidates = calloc(vocabulary, sizeof *sampler->candidates);
    if (!sampler->logits || !sampler->counts || !sampler->candidates) {
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
    free(sampler->candidates);
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

/* ---- selection: candidates rank by logit, equals by lower id ---- */

static bool ranks_before(const struct candidate *a, const struct candidate *b)
{
    return a->logit > b->logit || (a->logit == b->logit && a->id < b->id);
}

static void swap(struct candidate *a, struct candidate *b)
{
    struct candidate c = *a;
    *a = *b;
    *b = c;
}

/* Parts candidates [n], n > 1, around one of them: what ranks before it goes to the front. Returns
 * where it ends up. The choice is a fixed scramble of n, so that no order of logits is a bad one on
 * purpose. */
static uint32_t partition(struct candidate *candidates, uint32_t n)
{
    uint32_t pick = (uint32_t)((n * 0x9E3779B97F4A7C15u >> 32) % n), store = 0;
    swap(&candidates[pick], &candidates[n - 1]);
    for (uint32_t i = 0; i + 1 < n; i++)
        if (ranks_before(&candidates[i], &candidates[n - 1]))
            swap(&candidates[i], &candidates[store++]);
    swap(&candidates[store], &candidates[n - 1]);
    return store;
}

/* Brings the k first ranks to the front, in any order; 0 < k < n. */
static void select_ranks(struct candidate *candidates, uint32_t n, uint32_t k)
{
    uint32_t from = 0, to = n; /* rank k is decided inside from .. to */
    assert(k > 0 && k < n);
    while (to - from > 1) {
        uint32_t pivot = from + partition(candidates + from, to - from);
        if (pivot == k || pivot + 1 == k)
            return;
        if (pivot > k)
            to = pivot;
        else
            from = pivot + 1;
    }
}

static double sum_weights(const struct candidate *candidates, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += candidates[i].weight;
    return sum;
}

/* Brings the fewest first ranks whose weights reach wanted to the front, in any order; returns how
 * many. 0 < wanted, n > 0. */
static uint32_t select_weight(struct candidate *candidates, uint32_t n, double wanted)
{
    uint32_t from = 0, to = n; /* the first `from` ranks weigh `kept`: too little; `to` suffice */
    double kept = 0;
    assert(n > 0 && wanted > 0);
    while (to - from > 1) {
        uint32_t pivot = from + partition(candidates + from, to - from);
        double before = kept + sum_weights(candidates + from, pivot - from);
        if (before >= wanted) {
            to = pivot;
            continue;
        }
        kept = before + candidates[pivot].weight;
        from = pivot + 1;
        if (kept >= wanted)
            return from;
    }
    return to;
}

static struct candidate last_rank(const struct candidate *candidates, uint32_t n)
{
    struct candidate last = candidates[0];
    for (uint32_t i = 1; i < n; i++)
        if (ranks_before(&last, &candidates[i]))
            last = candidates[i];
    return last;
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

/* Weights under 2^-64 of the largest cannot be drawn. */
#define LOG_WEIGHT_MIN (-64 * 0.6931471805599453)

/* Fills candidates, by id, with what ranks up to last. NaN and -inf have no rank. */
static uint32_t list_candidates(struct sampler *sampler, const float *logits,
                                const struct candidate *last)
{
    uint32_t n = 0;
    for (uint32_t id = 0; id < sampler->vocabulary; id++)
        if (logits[id] > last->logit || (logits[id] == last->logit && id <= last->id))
            sampler->candidates[n++] = (struct candidate){0, logits[id], id};
    return n;
}

static void weigh(struct candidate *candidates, uint32_t n, float largest, float temperature)
{
    for (uint32_t i = 0; i < n; i++)
        candidates[i].weight = exp(((double)candidates[i].logit - (double)largest) /
                                   (double)temperature);
}

/* The last rank that top-k and then top-p keep. */
static struct candidate find_last(struct sampler *sampler, const struct sampling_params *params,
                                  const float *logits, float largest)
{
    struct candidate *candidates = sampler->candidates;
    double least = (double)largest + LOG_WEIGHT_MIN * (double)params->temperature;
    struct candidate last = {0, least < (double)-FLT_MAX ? -FLT_MAX : (float)least, UINT32_MAX};
    bool has_top_k = params->top_k > 0 && params->top_k < sampler->vocabulary;
    if (!has_top_k && params->top_p >= 1)
        return last;
    uint32_t n = list_candidates(sampler, logits, &last);
    if (has_top_k && params->top_k < n) {
        select_ranks(candidates, n, params->top_k);
        n = params->top_k;
    }
    if (params->top_p < 1) {
        weigh(candidates, n, largest, params->temperature);
        n = select_weight(candidates, n, (double)params->top_p * sum_weights(candidates, n));
    }
    return last_rank(candidates, n);
}

/* The largest weight is 1. */
static uint32_t keep_min_p(struct candidate *candidates, uint32_t n, double min_p)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++)
        if (candidates[i].weight >= min_p)
            candidates[kept++] = candidates[i];
    return kept;
}

/* The first id, rising, at which the running sum exceeds unit of the whole. */
static uint32_t pick(const struct candidate *candidates, uint32_t n, double unit)
{
    double target = unit * sum_weights(candidates, n), sum = 0;
    assert(n > 0); /* the first rank passes every filter */
    for (uint32_t i = 0; i + 1 < n; i++) {
        sum += candidates[i].weight;
        if (sum > target)
            return candidates[i].id;
    }
    return candidates[n - 1].id;
}

static uint32_t draw(struct sampler *sampler, const struct sampling_params *params,
                     const float *logits, uint32_t position)
{
    uint32_t likeliest = sampler->kernels->argmax(logits, sampler->vocabulary);
    float largest = logits[likeliest];
    /* An infinite or missing largest logit leaves no distribution to draw from. */
    if (params->temperature == 0 || !isfinite(largest))
        return likeliest;
    struct candidate last = find_last(sampler, params, logits, largest);
    uint32_t n = list_candidates(sampler, logits, &last);
    weigh(sampler->candidates, n, largest, params->temperature);
    n = keep_min_p(sampler->candidates, n, (double)params->min_p);
    return pick(sampler->candidates, n, random_of(params->seed, position));
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
