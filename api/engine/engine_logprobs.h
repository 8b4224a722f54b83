/*
 * engine_logprobs - which tokens' log-probabilities a gateway is told for a generated one, and in which order.
 *
 * Thread: any; no state.
 */
#pragma once

#include "sampling_params/sampling_params.h"

struct engine_logprob {
    uint32_t id;
    float logprob;
    uint32_t rank; /* from 1; 0: the token is not among the likeliest that are known */
};

#define ENGINE_LOGPROBS_MAX (LOGPROBS_MAX + 1)

/* The generated token, then the likeliest others: n_top with it, or one more where it is not among them. Returns how many. */
uint32_t engine_logprobs_first(const struct token_logprobs *from, uint32_t id, uint32_t n_top,
                               struct engine_logprob out[ENGINE_LOGPROBS_MAX]);
