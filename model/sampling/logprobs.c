#include "model/sampling/logprobs.h"

#include "kernels/finite.h"
#include "kernels/kernels.h"

#include <assert.h>
#include <math.h>

uint32_t logprobs_find_fault(const float *logits, uint32_t vocabulary)
{
    uint32_t id = (uint32_t)first_not_finite(DTYPE_F32, logits, vocabulary);
    bool has_finite = id > 0;
    for (; id < vocabulary; id++) {
        if (isnan(logits[id]) || logits[id] == INFINITY)
            return id;
        has_finite = has_finite || isfinite(logits[id]);
    }
    return has_finite ? vocabulary : 0;
}

/* One pass with a short insertion sort: n_top is at most LOGPROBS_MAX, and few ids get in. */
static uint32_t find_top(const float *logits, uint32_t vocabulary, uint32_t n_top,
                         struct token_logprobs *out)
{
    uint32_t n = 0;
    for (uint32_t id = 0; n_top > 0 && id < vocabulary; id++) {
        float logit = logits[id];
        if (isnan(logit) || (n == n_top && !(logit > logits[out->top_ids[n - 1]])))
            continue;
        uint32_t at = n < n_top ? n++ : n - 1;
        for (; at > 0 && logit > logits[out->top_ids[at - 1]]; at--)
            out->top_ids[at] = out->top_ids[at - 1];
        out->top_ids[at] = id;
    }
    return n;
}

void logprobs_fill(const struct kernels *kernels, const float *logits, uint32_t vocabulary,
                   uint32_t n_top, uint32_t token, struct token_logprobs *out)
{
    float log_sum = kernels->log_sum_exp(logits, vocabulary);
    assert(n_top <= LOGPROBS_MAX && token < vocabulary);
    out->n_top = find_top(logits, vocabulary, n_top, out);
    for (uint32_t i = 0; i < out->n_top; i++)
        out->top_logprobs[i] = logits[out->top_ids[i]] - log_sum;
    out->logprob = logits[token] - log_sum;
}
