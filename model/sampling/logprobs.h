/*
 * logprobs - log-probabilities by a row of logits: of the model's own distribution, before penalties, temperature and filters.
 *
 * Thread: any; no state.
 */
#pragma once

#include "sampling_params/sampling_params.h"

struct kernels;

/* The first logit that leaves no distribution: a NaN or +inf, or the first one if all are -inf. Returns vocabulary if there is
 * none. */
uint32_t logprobs_find_fault(const float *logits, uint32_t vocabulary);

/* Of token, and of the n_top likeliest; with equal logits the lower id is first. logits [vocabulary]. */
void logprobs_fill(const struct kernels *kernels, const float *logits, uint32_t vocabulary,
                   uint32_t n_top, uint32_t token, struct token_logprobs *out);
