#include "cli/eval/eval_row.h"

#include <assert.h>
#include <math.h>

/* A row's largest logit, where it is, and the logarithm of the sum of exp(logit - largest). */
struct scale {
    double largest, log_sum;
    uint32_t likeliest;
    bool is_finite;
};

static struct scale scale_of(const float *logits, uint32_t n)
{
    struct scale scale = {.largest = (double)logits[0], .is_finite = true};
    double sum = 0.0;

    for (uint32_t i = 0; i < n; i++) {
        scale.is_finite &= isfinite(logits[i]) != 0;
        if ((double)logits[i] > scale.largest) {
            scale.largest = (double)logits[i];
            scale.likeliest = i;
        }
    }
    for (uint32_t i = 0; i < n && scale.is_finite; i++)
        sum += exp((double)logits[i] - scale.largest);
    scale.log_sum = log(sum);
    return scale;
}

static struct eval_row row_of(const struct scale *scale, const float *logits, uint32_t token)
{
    return (struct eval_row){.log_probability = (double)logits[token] - scale->largest -
                                                scale->log_sum,
                             .likeliest = scale->likeliest,
                             .is_finite = scale->is_finite};
}

struct eval_row eval_row_of(const float *logits, uint32_t n, uint32_t token)
{
    assert(token < n);
    const struct scale scale = scale_of(logits, n);
    return row_of(&scale, logits, token);
}

struct eval_pair eval_pair_of(const float *logits, const float *reference, uint32_t n,
                              uint32_t token)
{
    assert(token < n);
    const struct scale ours = scale_of(logits, n), theirs = scale_of(reference, n);
    struct eval_pair pair = {.row = row_of(&ours, logits, token),
                             .reference = row_of(&theirs, reference, token)};
    if (!ours.is_finite || !theirs.is_finite)
        return pair;
    const double q_shift = ours.largest + ours.log_sum, p_shift = theirs.largest + theirs.log_sum;
    for (uint32_t i = 0; i < n; i++) {
        const double log_p = (double)reference[i] - p_shift;
        pair.divergence += exp(log_p) * (log_p - ((double)logits[i] - q_shift));
    }
    return pair;
}
