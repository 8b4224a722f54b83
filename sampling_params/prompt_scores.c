#include "sampling_params/prompt_scores.h"

/* What rounding may add to 0. */
#define LOGPROB_LARGEST 0.001f

/* NaN is none, and minus infinity is one. */
static bool is_logprob(float value)
{
    return value <= LOGPROB_LARGEST;
}

bool prompt_score_is_valid(const struct token_logprobs *score, uint32_t token, uint32_t n_top_max)
{
    if (token == 0)
        return score->logprob == 0 && score->n_top == 0;
    if (score->n_top > n_top_max || !is_logprob(score->logprob))
        return false;
    for (uint32_t i = 0; i < score->n_top; i++)
        if (!is_logprob(score->top_logprobs[i]))
            return false;
    return true;
}
