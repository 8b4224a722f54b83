/*
 * prompt_scores - log-probabilities of some tokens of a prompt, each given those before it.
 *
 * Token 0 has none: its entry is zeros.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "sampling_params/sampling_params.h"

#define PROMPT_SCORES_MAX 256u /* tokens told at one time */

struct prompt_scores {
    uint32_t first;                        /* token of the prompt */
    uint32_t n;                            /* at most PROMPT_SCORES_MAX */
    const struct token_logprobs *logprobs; /* [n], borrowed */
};
