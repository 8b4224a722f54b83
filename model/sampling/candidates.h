/*
 * candidates - the likeliest tokens of a row of logits, and a draw that only needs these.
 *
 *     best     the CANDIDATES_MAX first ranks (ranks.h), or all tokens that can be drawn if they are fewer
 *     weight   exp((logit - largest) / temperature); a token with a weight under 2^-64 cannot be drawn
 *     sum      of the weights of all tokens that can be drawn: exp(L - largest / temperature), where L is the
 *              log-sum-exp of the row at this temperature
 *
 * A device only has to return these: 4 KiB instead of a row of megabytes. candidates_draw draws from them,
 * whether a host or a device made them. It reports when the whole row is needed: u falls on another token, or
 * a filter keeps more tokens.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "model/sampling/ranks.h"
#include "sampling_params/sampling_params.h"

struct kernels;
struct sampling_result; /* kernels/cuda/sampling_parameters.h */

#define CANDIDATES_MAX 256u

/* One row, after the penalties. largest is the logit of the first rank and finite. temperature is above 0. */
struct logit_row {
    const float *logits; /* [vocabulary] */
    uint32_t vocabulary;
    float largest, temperature;
};

double logit_row_weight(const struct logit_row *row, float logit);
/* The lowest rank that can be drawn: tokens below it have no chance. */
struct candidate logit_row_floor(const struct logit_row *row);
/* The sum of all weights, in float32's precision. It is computed with the kernels, which is fast, so its bits depend
 * on them. */
double logit_row_sum(const struct logit_row *row, const struct kernels *kernels);

struct candidates {
    uint32_t n;
    bool is_all;                           /* no other token can be drawn */
    double sum;                            /* only if candidates_need_sum */
    struct candidate best[CANDIDATES_MAX]; /* first rank first */
};

/* Finds the n_wanted (1 .. CANDIDATES_MAX) first ranks in one pass. Sets sum to 0. */
void candidates_select(const struct logit_row *row, uint32_t n_wanted,
                       struct candidates *candidates_out);

/* The candidates that a device found in the row. Does not read the logits of the row; sum comes from the device. */
void candidates_take(const struct logit_row *row, const struct sampling_result *found,
                     struct candidates *candidates_out);

/* For both functions top_k 0 means all tokens. A top_k that is not below the vocabulary must be set to 0. */
bool candidates_need_sum(const struct candidates *candidates, const struct sampling_params *params);
/* unit: in [0, 1). False: the whole row is needed. */
bool candidates_draw(const struct candidates *candidates, const struct sampling_params *params,
                     double unit, uint32_t *token_out);
