#include "model/sampling/filters.h"

#include <assert.h>
#include <math.h>

bool filters_are_set(const struct sampling_params *params)
{
    return params->typical_p < 1 || params->epsilon_cutoff > 0 || params->eta_cutoff > 0;
}

static double entropy_of(const struct candidate *list, uint32_t n, double sum)
{
    double entropy = 0;
    for (uint32_t i = 0; i < n; i++) {
        const double p = list[i].weight / sum;
        entropy -= p * log(p);
    }
    return entropy;
}

/* As a logit, so that the nearest is the first rank. */
static float nearness(const struct candidate *token, double sum, double entropy)
{
    return -(float)fabs(-log(token->weight / sum) - entropy);
}

static uint32_t keep_typical(double typical_p, struct candidate *list, uint32_t n,
                             struct candidate *room)
{
    const double sum = ranks_sum(list, n), entropy = entropy_of(list, n, sum);
    uint32_t n_kept = 0;
    for (uint32_t i = 0; i < n; i++)
        room[i] = (struct candidate){list[i].weight, nearness(&list[i], sum, entropy), i};
    const uint32_t n_near = ranks_select_weight(room, n, typical_p * sum);
    const float least = ranks_last(room, n_near).logit;
    for (uint32_t i = 0; i < n; i++)
        if (nearness(&list[i], sum, entropy) >= least)
            list[n_kept++] = list[i];
    return n_kept;
}

static uint32_t keep_likely(double least, struct candidate *list, uint32_t n, double sum)
{
    double most = 0;
    uint32_t n_kept = 0;
    for (uint32_t i = 0; i < n; i++)
        most = list[i].weight > most ? list[i].weight : most;
    for (uint32_t i = 0; i < n; i++)
        if (list[i].weight / sum >= least || list[i].weight == most)
            list[n_kept++] = list[i];
    return n_kept;
}

uint32_t filters_keep(const struct sampling_params *params, struct candidate *list, uint32_t n,
                      struct candidate *room)
{
    assert(n > 0);
    if (params->typical_p < 1)
        n = keep_typical((double)params->typical_p, list, n, room);
    if (params->epsilon_cutoff > 0)
        n = keep_likely((double)params->epsilon_cutoff, list, n, ranks_sum(list, n));
    if (params->eta_cutoff > 0) {
        const double sum = ranks_sum(list, n), eta = (double)params->eta_cutoff;
        const double least = sqrt(eta) * exp(-entropy_of(list, n, sum));
        n = keep_likely(least < eta ? least : eta, list, n, sum);
    }
    assert(n > 0 && "the nearest, and the likeliest");
    return n;
}
