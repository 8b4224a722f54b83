/*
 * eval_row - one row of logits: how likely the token was that came, and how far another model's row is from it.
 *
 * Probabilities are softmax in float64. The divergence is Kullback and Leibler's, sum p log(p / q), of this row's q from the
 * reference's p, in nats.
 *
 * Thread: any.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct eval_row {
    double log_probability; /* of the token that came */
    uint32_t likeliest;     /* the lowest id of equals */
    bool is_finite;         /* else nothing else is set */
};

/* What two rows for the same token make of each other. */
struct eval_pair {
    struct eval_row row, reference;
    double divergence;
};

/* logits: [n]; token < n. */
struct eval_row eval_row_of(const float *logits, uint32_t n, uint32_t token);
/* Both rows must be finite for a divergence. */
struct eval_pair eval_pair_of(const float *logits, const float *reference, uint32_t n,
                              uint32_t token);
