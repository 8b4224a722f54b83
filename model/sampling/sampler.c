#include "model/sampling/sampler.h"

#include "kernels/cuda/sampling_parameters.h"
#include "kernels/kernels.h"
#include "model/sampling/candidates.h"
#include "model/sampling/filters.h"
#include "model/sampling/logprobs.h"
#include "model/sampling/penalties.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct sampler {
    uint32_t vocabulary;
    const struct kernels *kernels;
    float *logits;             /* [vocabulary] after the penalties */
    float *logprobs;           /* [vocabulary] of a row that is ranked */
    struct candidate *scratch; /* [vocabulary] */
    struct candidate *room;    /* [vocabulary] of filters */
    bool *is_kept;             /* [vocabulary] false between draws */
    struct penalties penalties;
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
    sampler->logprobs = calloc(vocabulary, sizeof *sampler->logprobs);
    sampler->scratch = calloc(vocabulary, sizeof *sampler->scratch);
    sampler->room = calloc(vocabulary, sizeof *sampler->room);
    sampler->is_kept = calloc(vocabulary, sizeof *sampler->is_kept);
    if (penalties_init(&sampler->penalties, vocabulary) != STATUS_OK || !sampler->logits ||
        !sampler->logprobs || !sampler->scratch || !sampler->room || !sampler->is_kept) {
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
    free(sampler->logprobs);
    penalties_finish(&sampler->penalties);
    free(sampler->scratch);
    free(sampler->room);
    free(sampler->is_kept);
    free(sampler);
}

void sampler_set_ends(struct sampler *sampler, const uint32_t *ids, uint32_t n)
{
    penalties_set_ends(&sampler->penalties, ids, n);
}

void sampler_set_suppressed(struct sampler *sampler, const uint32_t *ids, uint32_t n)
{
    penalties_set_suppressed(&sampler->penalties, ids, n);
}

/* ---- penalties and rules ---- */

uint32_t sampler_list_penalties(struct sampler *sampler, const struct draw *draw,
                                const struct sampling_penalty **list_out)
{
    *list_out = sampler->penalties.list;
    return penalties_make(&sampler->penalties, draw);
}

static bool has_allowed(const struct sampling_params *params)
{
    return params->rules && params->rules->n_allowed > 0;
}

bool sampler_takes_row(const struct draw *draw)
{
    return draw->mask || has_allowed(draw->params);
}

/* The row, or what of it is allowed. */
static void copy_row(struct sampler *sampler, const struct sampling_params *params,
                     const float *logits)
{
    const struct token_rules *rules = params->rules;
    if (!has_allowed(params)) {
        memcpy(sampler->logits, logits, sampler->vocabulary * sizeof *logits);
        return;
    }
    for (uint32_t id = 0; id < sampler->vocabulary; id++)
        sampler->logits[id] = -INFINITY;
    for (uint32_t i = 0; i < rules->n_allowed; i++)
        sampler->logits[rules->allowed_ids[i]] = logits[rules->allowed_ids[i]];
}

/* Most masks have whole words of ones or of zeros. */
static void apply_mask(struct sampler *sampler, const uint32_t *mask)
{
    for (uint32_t first = 0; first < sampler->vocabulary; first += 32) {
        const uint32_t word = mask[first / 32];
        if (word == UINT32_MAX)
            continue;
        const uint32_t left = sampler->vocabulary - first, n = left < 32 ? left : 32;
        for (uint32_t i = 0; i < n; i++)
            if (!(word >> i & 1))
                sampler->logits[first + i] = -INFINITY;
    }
}

/* The row after the penalties; the same row if there are none. */
static const float *penalise(struct sampler *sampler, const struct draw *draw, const float *logits)
{
    const struct sampling_penalty *list;
    const uint32_t n = sampler_list_penalties(sampler, draw, &list);
    if (n == 0 && !sampler_takes_row(draw))
        return logits;
    copy_row(sampler, draw->params, logits);
    if (draw->mask)
        apply_mask(sampler, draw->mask);
    for (uint32_t i = 0; i < n; i++) {
        float *logit = &sampler->logits[list[i].id];
        *logit = *logit > 0 ? *logit / list[i].factor : *logit * list[i].factor;
        *logit -= list[i].subtract;
    }
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

/* A number of [0, 1) in steps of 2^-53. It depends only on seed and position, not on earlier numbers. */
static double random_of(uint64_t seed, uint32_t position)
{
    const uint64_t golden = 0x9E3779B97F4A7C15u;
    uint64_t bits = mix(mix(seed + golden) + (position + 1ull) * golden);
    return (double)(bits >> 11) * 0x1p-53;
}

/* Fills scratch with the tokens that rank up to last, by id. NaN and -inf have no rank. */
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

/* The tokens of a row that a draw keeps, and the sum of their weights. */
struct rest {
    struct candidate last; /* the last rank that is kept */
    double min_p, sum;
};

/* Fills scratch with what top-k and top-p keep, in any order. */
static uint32_t keep_ranks(struct sampler *sampler, const struct sampling_params *params,
                           const struct logit_row *row)
{
    const struct candidate floor = logit_row_floor(row);
    uint32_t n = list_ranks(sampler, row, &floor);
    if (params->top_k > 0 && params->top_k < n) {
        ranks_select(sampler->scratch, n, params->top_k);
        n = params->top_k;
    }
    if (params->top_p < 1)
        n = ranks_select_weight(sampler->scratch, n,
                                (double)params->top_p * ranks_sum(sampler->scratch, n));
    return n;
}

/* Applies top-k, top-p and min-p. */
static struct rest filter_row(struct sampler *sampler, const struct sampling_params *params,
                              const struct logit_row *row)
{
    struct rest rest = {logit_row_floor(row), (double)params->min_p, 0};
    const uint32_t n = keep_ranks(sampler, params, row);
    if (params->top_k > 0 || params->top_p < 1)
        rest.last = ranks_last(sampler->scratch, n);
    for (uint32_t i = 0; i < n; i++)
        rest.sum += sampler->scratch[i].weight >= rest.min_p ? sampler->scratch[i].weight : 0;
    return rest;
}

/* The token at which the running sum of what is_kept exceeds target: candidates by rank, then the others by id. */
static uint32_t draw_kept(const struct sampler *sampler, const struct logit_row *row, double target)
{
    const struct candidates *candidates = &sampler->candidates;
    const struct candidate *bar = &candidates->best[candidates->n - 1];
    uint32_t token = 0;
    double sum = 0;
    for (uint32_t i = 0; i < candidates->n; i++) {
        if (!sampler->is_kept[candidates->best[i].id])
            continue;
        token = candidates->best[i].id;
        sum += candidates->best[i].weight;
        if (sum > target)
            return token;
    }
    for (uint32_t id = 0; id < row->vocabulary; id++) {
        const struct candidate next = {0, row->logits[id], id};
        if (!sampler->is_kept[id] || !ranks_before(bar, &next))
            continue;
        token = id;
        sum += logit_row_weight(row, next.logit);
        if (sum > target)
            return token;
    }
    return token;
}

/* With filters that keep no first ranks (filters.h). */
static uint32_t draw_filtered(struct sampler *sampler, const struct sampling_params *params,
                              const struct logit_row *row, double unit)
{
    struct candidate *list = sampler->scratch;
    const uint32_t n_ranks = keep_ranks(sampler, params, row);
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_ranks; i++)
        if (list[i].weight >= (double)params->min_p)
            list[n++] = list[i];
    n = filters_keep(params, list, n, sampler->room);
    for (uint32_t i = 0; i < n; i++)
        sampler->is_kept[list[i].id] = true;
    const uint32_t token = draw_kept(sampler, row, unit * ranks_sum(list, n));
    for (uint32_t i = 0; i < n; i++)
        sampler->is_kept[list[i].id] = false;
    return token;
}

/* As candidates_draw, but continues after the candidates with all other tokens, by id. */
static uint32_t draw_from_row(struct sampler *sampler, const struct sampling_params *params,
                              const struct logit_row *row, double unit)
{
    if (filters_are_set(params))
        return draw_filtered(sampler, params, row, unit);
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

/* A top_k that is not below the vocabulary becomes 0: see candidates.h. */
static struct sampling_params params_for(const struct sampler *sampler,
                                         const struct sampling_params *asked)
{
    struct sampling_params params = *asked;
    if (params.top_k >= sampler->vocabulary)
        params.top_k = 0;
    return params;
}

/* If the largest logit is not finite, there is no distribution to draw from. */
static bool takes_likeliest(const struct logit_row *row)
{
    return row->temperature == 0 || !isfinite(row->largest);
}

/* logits: after the penalties. */
static uint32_t draw_token(struct sampler *sampler, const struct draw *draw, const float *logits)
{
    const struct sampling_params *asked = draw->params;
    const bool is_masked = draw->mask;
    uint32_t likeliest = sampler->kernels->argmax(logits, sampler->vocabulary), token;
    const struct logit_row row = {logits, sampler->vocabulary, logits[likeliest],
                                  asked->temperature};
    if (row.largest == -INFINITY && (is_masked || sampling_has_rules(asked)))
        return SAMPLER_NO_TOKEN;
    if (takes_likeliest(&row))
        return likeliest;
    const struct sampling_params params = params_for(sampler, asked);
    struct candidates *candidates = &sampler->candidates;
    bool is_few = params.top_k > 0 && params.top_k < CANDIDATES_MAX;
    candidates_select(&row, is_few ? params.top_k : CANDIDATES_MAX, candidates);
    if (candidates_need_sum(candidates, &params))
        candidates->sum = logit_row_sum(&row, sampler->kernels);
    double unit = random_of(params.seed, draw->n_tokens);
    if (candidates_draw(candidates, &params, unit, &token))
        return token;
    return draw_from_row(sampler, &params, &row, unit);
}

/* ---- a draw ---- */

uint32_t sampler_draw(struct sampler *sampler, const struct sampling_params *params,
                      const float *logits, const uint32_t *tokens, uint32_t n_prompt,
                      uint32_t n_tokens, struct token_logprobs *logprobs_out)
{
    const struct draw draw = {.params = params,
                              .tokens = tokens,
                              .n_prompt = n_prompt,
                              .n_tokens = n_tokens,
                              .logprobs = logprobs_out};
    return sampler_draw_row(sampler, &draw, logits);
}

uint32_t sampler_draw_row(struct sampler *sampler, const struct draw *draw, const float *logits)
{
    const uint32_t n_logprobs = draw->params->n_logprobs;
    assert(draw->n_prompt <= draw->n_tokens && n_logprobs <= LOGPROBS_MAX);
    assert(n_logprobs == 0 || draw->logprobs);
    const uint32_t token = draw_token(sampler, draw, penalise(sampler, draw, logits));
    if (n_logprobs > 0 && token != SAMPLER_NO_TOKEN)
        logprobs_fill(sampler->kernels, logits, sampler->vocabulary, n_logprobs, token,
                      draw->logprobs);
    return token;
}

uint32_t sampler_rank_row(struct sampler *sampler, const struct draw *draw, const float *logits,
                          uint32_t n, struct ranked_row *row_out)
{
    struct candidate *list = sampler->scratch;
    const float log_sum = sampler->kernels->log_sum_exp(logits, sampler->vocabulary);
    assert(n > 0 && n <= RANKED_ROW_MAX);
    for (uint32_t id = 0; id < sampler->vocabulary; id++)
        sampler->logprobs[id] = logits[id] - log_sum;
    const float *ruled = penalise(sampler, draw, sampler->logprobs);
    uint32_t n_listed = 0;
    for (uint32_t id = 0; id < sampler->vocabulary; id++)
        if (isfinite(ruled[id]))
            list[n_listed++] = (struct candidate){.logit = ruled[id], .id = id};
    if (n < n_listed)
        ranks_select(list, n_listed, n);
    row_out->n = n < n_listed ? n : n_listed;
    ranks_sort(list, row_out->n);
    for (uint32_t i = 0; i < row_out->n; i++) {
        row_out->ids[i] = list[i].id;
        row_out->logprobs[i] = draw->mask ? 0 : list[i].logit;
    }
    return row_out->n;
}

/* ---- draws from the results of a device ---- */

/* raw: the drawn token's logit before the penalties. */
static void end_draw(struct draw *draw, const struct sampling_result *found, uint32_t token,
                     float raw)
{
    struct token_logprobs *out = draw->logprobs;
    const uint32_t n_top = found->n_top < draw->params->n_logprobs ? found->n_top
                                                                   : draw->params->n_logprobs;
    draw->token_id = token;
    if (draw->params->n_logprobs == 0)
        return;
    assert(out);
    out->n_top = 0;
    for (uint32_t i = 0; i < n_top && !isnan(found->top_logits[i]); i++) {
        out->top_ids[i] = found->top_ids[i];
        out->top_logprobs[i] = found->top_logits[i] - found->log_sum_exp;
        out->n_top++;
    }
    out->logprob = raw - found->log_sum_exp;
}

static struct logit_row row_of(const struct sampler *sampler, const struct draw *draw,
                               const struct sampling_result *found)
{
    assert(found->n > 0 && found->n <= CANDIDATES_MAX && draw->n_prompt <= draw->n_tokens);
    return (struct logit_row){NULL, sampler->vocabulary, found->largest, draw->params->temperature};
}

/* The index of the drawn token among those that were found; found->n: it is another token. */
static uint32_t find_token(struct sampler *sampler, const struct draw *draw,
                           const struct sampling_result *found)
{
    const struct logit_row row = row_of(sampler, draw, found);
    const struct sampling_params params = params_for(sampler, draw->params);
    uint32_t token, i = 0;
    if (takes_likeliest(&row))
        return 0;
    candidates_take(&row, found, &sampler->candidates);
    if (!candidates_draw(&sampler->candidates, &params, random_of(params.seed, draw->n_tokens),
                         &token))
        return found->n;
    while (found->ids[i] != token)
        i++;
    return i;
}

bool sampler_draw_found(struct sampler *sampler, struct draw *draw,
                        const struct sampling_result *found)
{
    const uint32_t i = find_token(sampler, draw, found);
    if (i == found->n)
        return false;
    end_draw(draw, found, found->ids[i], found->raw[i]);
    return true;
}

void sampler_draw_behind(struct sampler *sampler, struct draw *draw,
                         const struct sampling_result *found, const float *logits)
{
    struct logit_row row = row_of(sampler, draw, found);
    const struct sampling_params params = params_for(sampler, draw->params);
    uint32_t token = found->ids[0];
    if (!takes_likeliest(&row)) {
        row.logits = penalise(sampler, draw, logits);
        candidates_take(&row, found, &sampler->candidates);
        token = draw_from_row(sampler, &params, &row, random_of(params.seed, draw->n_tokens));
    }
    end_draw(draw, found, token, logits[token]);
}
