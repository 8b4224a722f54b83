/*
 * sampler - draws the next token from logits.
 *
 * Order: repetition, presence and frequency penalties; temperature; top-k; top-p; min-p; draw.
 *
 *     repetition   tokens of prompt and generation: a positive logit is divided, another multiplied
 *     presence     generated tokens: subtracted once;  frequency: subtracted for each time
 *     rank         by logit, equals by lower id; temperature 0 takes the first rank
 *     top-k        keeps exactly the k first ranks
 *     top-p        keeps the fewest first ranks whose share of what top-k left reaches top_p
 *     min-p        keeps what is at least min_p times as likely as the first rank
 *     draw         of what is left, in the order of the draw, the first at which the running sum of
 *                  likelihoods exceeds u times the whole,
 *                  u = mix(mix(seed + G) + (t + 1) G) / 2^64 for the token at position t (mix, G:
 *                  splitmix64's; 53 bits of it)
 *     order        of the draw: the 256 first ranks after the penalties, by rank, then the others
 *                  by id
 *
 * So what is drawn is nearly always among the 256 likeliest (candidates.h), which one pass finds; only
 * a u that falls behind them, or a filter that keeps more of them than that, looks at the row again.
 *
 * u is a function of (seed, t) alone, so that the same seed gives the same tokens in any batch and on
 * any worker of the same numerics (the whole is summed in float32, in the kernels' order: of other
 * kernels one draw in some 10^6 falls on a neighbour). NaN logits are never drawn while there is
 * another. A token under 2^-64 of the first rank's likelihood counts as impossible. Log-probabilities
 * are the model's own: before penalties, temperature and filters.
 *
 * Thread: any; a sampler's scratch belongs to one.
 */
#pragma once

#include "sampling_params/sampling_params.h"

struct kernels;
struct sampler; /* scratch for one vocabulary */

/* kernels are borrowed. NO_MEMORY. */
MUST_CHECK enum status sampler_create(uint32_t vocabulary, const struct kernels *kernels,
                                      struct sampler **sampler_out);
void sampler_destroy(struct sampler *sampler); /* NULL is fine */

/* tokens: prompt then generated, n_prompt of n_tokens; the new token's position is n_tokens.
 * logits [vocabulary] are read only. logprobs_out may be NULL when params->n_logprobs is 0. */
uint32_t sampler_draw(struct sampler *sampler, const struct sampling_params *params,
                      const float *logits, const uint32_t *tokens, uint32_t n_prompt,
                      uint32_t n_tokens, struct token_logprobs *logprobs_out);
