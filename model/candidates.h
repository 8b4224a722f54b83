/*
 * candidates - the likeliest tokens of a row of logits, and a draw that only needs these.
 *
 *     best     the CANDIDATES_MAX first ranks (ranks.h), or all that can be drawn where they are fewer
 *     weight   exp((logit - largest) / temperature); under 2^-64 a token cannot be drawn
 *     sum      of the weights of all that can be drawn: the row's log-sum-exp at that temperature, less
 *              largest / temperature, as a number
 *
 * A device only has to return these: 4 KiB instead of a row of megabytes. candidates_draw draws from them,
 * whether a host or a device made them. It reports when the whole row is needed: u is beyond them, or a
 * filter keeps more tokens.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "model/ranks.h"
#include "sampling_params/sampling_params.h"

struct kernels;
struct sampling_result; /* kernels/cuda/sampling_parameters.h */

#define CANDIDATES_MAX 256u

/* One row, after the penalties. largest is finite and the first rank's, temperature above 0. */
struct logit_row {
    const float *logits; /* [vocabulary] */
    uint32_t vocabulary;
    float largest, temperature;
};

double logit_row_weight(const struct logit_row *row, float logit);
/* The lowest rank that can be drawn: tokens below it have no chance. */
struct candidate logit_row_floor(const struct logit_row *row);
/* Of all weights, to float32's precision: exp and sums are the kernels', so that it costs little, and its
 * bits are theirs. */
double logit_row_sum(const struct logit_row *row, const struct kernels *kernels);

struct candidates {
    uint32_t n;
    bool is_all;                           /* no other can be drawn */
    double sum;                            /* needed as candidates_need_sum says */
    struct candidate best[CANDIDATES_MAX]; /* first rank first */
};

/* The n_wanted (1 .. CANDIDATES_MAX) first ranks, in one pass; leaves sum 0. */
void candidates_select(const struct logit_row *row, uint32_t n_wanted,
                       struct candidates *candidates_out);

/* The candidates that a device found in such a row; its logits are not read, and sum is the
 * device's. */
void candidates_take(const struct logit_row *row, const struct sampling_result *found,
                     struct candidates *candidates_out);

/* In both, top_k 0 means all: one that is not below the vocabulary has to be 0. */
bool candidates_need_sum(const struct candidates *candidates, const struct sampling_params *params);
/* unit: in [0, 1). False: the whole row is needed. */
bool candidates_draw(const struct candidates *candidates, const struct sampling_params *params,
                     double unit, uint32_t *token_out);
