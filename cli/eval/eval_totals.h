/*
 * eval_totals - sums over the rows of a text, and what follows from them.
 *
 * Thread: one at a time.
 */
#pragma once

#include "base/status.h"
#include "cli/eval/eval_row.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct eval_totals {
    bool has_reference;
    uint64_t n;     /* tokens that were predicted */
    double log_sum; /* of their log-probabilities */
    double log_sum_reference;
    uint64_t n_same;                       /* the likeliest token is the reference's */
    double difference_sum, difference_max; /* of log-probabilities, without sign */
    double *divergences;                   /* [n], if there is a reference; room for n_max */
    uint64_t n_max;
};

/* NO_MEMORY. */
MUST_CHECK enum status eval_totals_add(struct eval_totals *totals, const struct eval_pair *pair);
void eval_totals_finish(struct eval_totals *totals);

double eval_totals_perplexity(const struct eval_totals *totals);
/* {"tokens", "perplexity", "bits_per_byte"}, and with a reference {"reference_perplexity", "same_token", "divergence": {"mean", "p99",
 * "max"}, "log_probability_difference": {"mean", "max"}}. n_bytes: of the text of those tokens. The divergences are sorted. NULL: no
 * memory, or no tokens. */
json_t *eval_totals_json(struct eval_totals *totals, size_t n_bytes);
