/*
 * prompt_scores - log-probabilities of some tokens of a prompt, each given those before it.
 *
 * Token 0 has none: its entry is zeros.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "sampling_params/sampling_params.h"

#include <stdbool.h>

#define PROMPT_SCORES_MAX 256u /* tokens told at one time */

struct prompt_scores {
    uint32_t first;                        /* token of the prompt */
    uint32_t n;                            /* at most PROMPT_SCORES_MAX */
    const struct token_logprobs *logprobs; /* [n], borrowed */
};

/* Whether another process may say so of that token of a prompt: not NaN, not above 0 but for rounding, at most n_top_max likeliest
 * tokens, and zeros for token 0. */
bool prompt_score_is_valid(const struct token_logprobs *score, uint32_t token, uint32_t n_top_max);
