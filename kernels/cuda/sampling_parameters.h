/*
 * sampling_parameters - the arguments of the kernels for rows of logits (sampling.cuh), and their results.
 *
 * A CTA reads one of n_rows rows of float logits and does not change it. Ranks are those of model/sampling/ranks.h (by logit; of
 * equal logits the lower id first), but NaN has a rank, too, after all numbers.
 */
#pragma once

#include "kernels/cuda/parameters.h"

#define SAMPLING_THREADS      512u
#define SAMPLING_BEST         256u /* CANDIDATES_MAX */
#define SAMPLING_TOP_MAX      20u  /* LOGPROBS_MAX */
#define SAMPLING_SHARED_BYTES (SAMPLING_BEST * 8u + 256u * 4u + 64u * 4u)

PARAMETERS_BEGIN

/* The penalties of one token, as in model/sampling/sampler.h: a positive logit is divided by factor, any other is multiplied by it;
 * then subtract is subtracted. factor 1 and subtract 0 change nothing. */
struct sampling_penalty {
    uint32_t id;
    float factor;
    float subtract; /* presence + frequency * (float)count */
};

struct sampling_row {
    uint32_t first_penalty, n_penalties; /* in penalties; the ids of a row are different */
    float temperature;                   /* 0: sum stays 0 */
    uint32_t n_top;                      /* up to SAMPLING_TOP_MAX: likeliest before penalties */
    uint32_t
        n_best; /* up to SAMPLING_BEST; 0: the row is skipped, and its result does not change */
};

struct sampling_result {
    float
        log_sum_exp; /* before penalties; the largest if that is not finite; NaN: a logit is NaN */
    float largest;   /* after penalties; NaN: all logits are NaN */
    /* The sum of the weights exp((logit - largest) / temperature) of all tokens, after penalties. It includes weights under
     * 2^-64, which the host never draws: they do not change it. 0 if largest is not finite; NaN: a logit is NaN. */
    float sum;
    uint32_t n;     /* best tokens: n_best, or the vocabulary if that is less */
    uint32_t n_top; /* top tokens: likewise */
    uint32_t top_ids[SAMPLING_TOP_MAX];
    float top_logits[SAMPLING_TOP_MAX];
    uint32_t ids[SAMPLING_BEST]; /* first rank first, after penalties */
    float logits[SAMPLING_BEST]; /* after penalties */
    float raw[SAMPLING_BEST];    /* before penalties */
};

struct candidates_parameters {
    const float *logits;                      /* [n_rows][logits_stride] */
    const struct sampling_row *rows;          /* [n_rows] */
    const struct sampling_penalty *penalties; /* of all rows */
    float *scratch;                           /* workspace, [n_rows][vocabulary] */
    struct sampling_result *results;          /* [n_rows] */
    uint64_t logits_stride;
    uint32_t vocabulary;
    uint32_t reserved;
};

PARAMETERS_END
