#include "model/sampling/candidates.h"

#include "kernels/cuda/sampling_parameters.h"
#include "kernels/kernels.h"
#include "model/sampling/filters.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

/* ---- a row ---- */

/* Weights under 2^-64 of the largest cannot be drawn. */
#define LOG_WEIGHT_MIN (-64 * 0.6931471805599453)

double logit_row_weight(const struct logit_row *row, float logit)
{
    return exp(((double)logit - (double)row->largest) / (double)row->temperature);
}

struct candidate logit_row_floor(const struct logit_row *row)
{
    assert(isfinite(row->largest) && row->temperature > 0);
    double least = (double)row->largest + LOG_WEIGHT_MIN * (double)row->temperature;
    return (struct candidate){0, least < (double)-FLT_MAX ? -FLT_MAX : (float)least, UINT32_MAX};
}

enum { CHUNK = 1024 };

/* Logarithms of the weights of n logits. For whole chunks n is a constant, so that the compiler vectorizes the loop. */
static inline void to_exponents(const struct logit_row *row, const float *logits, uint32_t n,
                                float *exponents_out)
{
    const float scale = fminf(1 / row->temperature, FLT_MAX); /* 0 times infinity would be NaN */
    const float least = -200;
    for (uint32_t i = 0; i < n; i++) {
        float x = (logits[i] - row->largest) * scale;
        exponents_out[i] = x > least ? x : least; /* NaN weighs nothing either */
    }
}

double logit_row_sum(const struct logit_row *row, const struct kernels *kernels)
{
    float exponents[CHUNK];
    double sum = 0;
    uint32_t id = 0;
    for (; id + CHUNK <= row->vocabulary; id += CHUNK) {
        to_exponents(row, row->logits + id, CHUNK, exponents);
        sum += exp((double)kernels->log_sum_exp(exponents, CHUNK));
    }
    if (id < row->vocabulary) {
        to_exponents(row, row->logits + id, row->vocabulary - id, exponents);
        sum += exp((double)kernels->log_sum_exp(exponents, row->vocabulary - id));
    }
    return sum;
}

/* ---- selection ---- */

/* The list has room for twice the wanted number. When it is full, it is cut to the wanted first ranks; the last of
 * them is the bar for all later tokens. So a token costs one comparison, and the few that pass it a constant time,
 * in any order of logits. */
void candidates_select(const struct logit_row *row, uint32_t n_wanted,
                       struct candidates *candidates_out)
{
    struct candidate list[2 * CANDIDATES_MAX];
    struct candidate bar = logit_row_floor(row);
    uint32_t n = 0;
    bool has_cut = false;
    assert(n_wanted > 0 && n_wanted <= CANDIDATES_MAX);
    for (uint32_t id = 0; id < row->vocabulary; id++) {
        float logit = row->logits[id];
        if (!(logit >= bar.logit) || (logit == bar.logit && id > bar.id))
            continue;
        list[n++] = (struct candidate){0, logit, id};
        if (n == 2 * n_wanted) {
            ranks_select(list, n, n_wanted);
            n = n_wanted;
            bar = ranks_last(list, n);
            has_cut = true;
        }
    }
    if (n > n_wanted) {
        ranks_select(list, n, n_wanted);
        n = n_wanted;
        has_cut = true;
    }
    ranks_sort(list, n);
    for (uint32_t i = 0; i < n; i++)
        list[i].weight = logit_row_weight(row, list[i].logit);
    assert(n > 0 && list[0].logit == row->largest);
    candidates_out->n = n;
    candidates_out->is_all = !has_cut;
    candidates_out->sum = 0;
    memcpy(candidates_out->best, list, n * sizeof *list);
}

static_assert(SAMPLING_BEST == CANDIDATES_MAX && SAMPLING_TOP_MAX == LOGPROBS_MAX,
              "what a device hands back");

/* Ranks after the last token that can be drawn cannot be drawn either: if the device found this token, it found all. */
void candidates_take(const struct logit_row *row, const struct sampling_result *found,
                     struct candidates *candidates_out)
{
    const struct candidate least = logit_row_floor(row);
    const uint32_t n_found = found->n;
    uint32_t n = 0;
    assert(n_found > 0 && n_found <= CANDIDATES_MAX && n_found <= row->vocabulary);
    for (; n < n_found && found->logits[n] >= least.logit; n++) { /* NaN is last */
        const float logit = found->logits[n];
        assert(found->ids[n] < row->vocabulary);
        candidates_out->best[n] = (struct candidate){logit_row_weight(row, logit), logit,
                                                     found->ids[n]};
    }
    assert(n > 0 && candidates_out->best[0].logit == row->largest);
    candidates_out->n = n;
    candidates_out->is_all = n < n_found || n_found == row->vocabulary;
    candidates_out->sum = (double)found->sum;
}

/* ---- drawing ---- */

/* How many ranks the filters keep: exactly n, or with is_open all n candidates and also tokens that are not among
 * them. */
struct kept {
    uint32_t n;
    bool is_open;
};

static struct kept keep_top_k(const struct candidates *candidates, uint32_t top_k)
{
    if (top_k > 0 && top_k <= candidates->n)
        return (struct kept){top_k, false};
    return (struct kept){candidates->n, !candidates->is_all};
}

/* Keeps the fewest ranks whose share of all kept ones reaches top_p; changes nothing if all candidates do not reach it. */
static struct kept keep_top_p(const struct candidates *candidates, struct kept kept, double top_p)
{
    double all = kept.is_open ? candidates->sum : ranks_sum(candidates->best, kept.n);
    double sum = 0;
    for (uint32_t i = 0; i < kept.n; i++) {
        sum += candidates->best[i].weight;
        if (sum >= top_p * all)
            return (struct kept){i + 1, false};
    }
    return kept;
}

static struct kept keep_min_p(const struct candidates *candidates, struct kept kept, double min_p)
{
    while (candidates->best[kept.n - 1].weight < min_p) {
        assert(kept.n > 1 && "the first rank weighs 1");
        kept = (struct kept){kept.n - 1, false};
    }
    return kept;
}

bool candidates_need_sum(const struct candidates *candidates, const struct sampling_params *params)
{
    const bool is_row = filters_are_set(params) &&
                        params->top_p >= 1; /* drawn from that, if more */
    if (params->top_k > 0 || candidates->is_all || is_row)
        return false;
    return params->top_p < 1 || candidates->best[candidates->n - 1].weight >= (double)params->min_p;
}

bool candidates_draw(const struct candidates *candidates, const struct sampling_params *params,
                     double unit, uint32_t *token_out)
{
    assert(candidates->n > 0 && candidates->n <= CANDIDATES_MAX && unit >= 0 && unit < 1);
    struct kept kept = keep_top_k(candidates, params->top_k);
    if (kept.is_open && params->top_k > 0)
        return false;
    if (params->top_p < 1)
        kept = keep_top_p(candidates, kept, (double)params->top_p);
    if (kept.is_open && params->top_p < 1)
        return false;
    kept = keep_min_p(candidates, kept, (double)params->min_p);
    if (kept.is_open && (params->min_p > 0 || filters_are_set(params)))
        return false;

    const struct candidate *list = candidates->best;
    struct candidate left[CANDIDATES_MAX], room[CANDIDATES_MAX];
    if (filters_are_set(params)) {
        memcpy(left, list, kept.n * sizeof *list);
        kept.n = filters_keep(params, left, kept.n, room);
        list = left;
    }
    double all = kept.is_open ? candidates->sum : ranks_sum(list, kept.n);
    double sum = 0;
    for (uint32_t i = 0; i < kept.n; i++) {
        sum += list[i].weight;
        if (sum > unit * all) {
            *token_out = list[i].id;
            return true;
        }
    }
    if (kept.is_open)
        return false;
    *token_out = list[kept.n - 1].id; /* unit is within rounding of 1 */
    return true;
}
