/*
 * sampling_parameters - arguments of the kernels on rows of logits (sampling.cuh), and what they hand back of a row.
 *
 * Of n_rows rows of float logits, which stay as they are, a CTA each. Ranks are those of model/ranks.h (by logit, equals
 * by lower id); here NaN has one too, behind all numbers.
 */
#pragma once

#include "kernels/cuda/parameters.h"

#define SAMPLING_THREADS      512u
#define SAMPLING_BEST         256u /* CANDIDATES_MAX */
#define SAMPLING_TOP_MAX      20u  /* LOGPROBS_MAX */
#define SAMPLING_SHARED_BYTES (SAMPLING_BEST * 8u + 256u * 4u + 64u * 4u)

PARAMETERS_BEGIN

/* What penalties do to one token, as model/sampler.h has them: a positive logit is divided by factor, another multiplied;
 * then subtract is taken off. factor 1 and subtract 0 change nothing. */
struct sampling_penalty {
    uint32_t id;
    float factor;
    float subtract; /* presence + frequency * (float)count */
};

struct sampling_row {
    uint32_t first_penalty, n_penalties; /* in penalties; a row's ids differ from each other */
    float temperature;                   /* 0: sum is left 0 */
    uint32_t n_top;                      /* up to SAMPLING_TOP_MAX: likeliest before penalties */
    uint32_t
        n_best; /* up to SAMPLING_BEST; 0: nothing is wanted of the row, its result stays as it is */
};

struct sampling_result {
    float
        log_sum_exp; /* before penalties; the largest where that is not finite; NaN: one logit is */
    float largest;   /* after penalties; NaN: all are */
    /* Of the weights exp((logit - largest) / temperature) of all tokens, after penalties, of which the host takes those
     * under 2^-64 for impossible: too few to be seen in it. 0 where largest is not finite; NaN: one logit is. */
    float sum;
    uint32_t n;     /* of the best: as asked, or the vocabulary */
    uint32_t n_top; /* of the top: as asked, or the vocabulary */
    uint32_t top_ids[SAMPLING_TOP_MAX];
    float top_logits[SAMPLING_TOP_MAX];
    uint32_t ids[SAMPLING_BEST]; /* first rank first, after penalties */
    float logits[SAMPLING_BEST]; /* after penalties */
    float raw[SAMPLING_BEST];    /* before */
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
