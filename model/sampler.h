/*
 * sampler - draws the next token from logits.
 *
 * Order: repetition, presence and frequency penalties; logit_bias; tokens that may not be drawn; temperature; top-k; top-p;
 * min-p; draw.
 *
 *     repetition   tokens of prompt and generation: a positive logit is divided, another multiplied
 *     presence     generated tokens: subtracted once;  frequency: subtracted for each time
 *     not drawn    all but allowed_token_ids; before min_tokens what ends a reply; bad_words (penalties.h): -infinity
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
 * Where a device finds the candidates (forward_find), they are drawn from as the host's own are, with the device's sums, which
 * count for the row behind them too: what is drawn, and its log-probabilities, have the same bits whether the row was
 * wanted or not. Sums of another device, or the host's, differ by float32's rounding.
 *
 * Thread: any; a sampler's scratch belongs to one.
 */
#pragma once

#include "model/draw.h"

struct kernels;
struct sampler;          /* scratch for one vocabulary */
struct sampling_penalty; /* of these two: kernels/cuda/sampling_parameters.h */
struct sampling_result;

#define SAMPLER_NO_TOKEN UINT32_MAX /* the rules of the request leave none that may be drawn */

/* kernels are borrowed. NO_MEMORY. */
MUST_CHECK enum status sampler_create(uint32_t vocabulary, const struct kernels *kernels,
                                      struct sampler **sampler_out);
void sampler_destroy(struct sampler *sampler); /* NULL is fine */
/* The model's end-of-sequence tokens, which min_tokens keeps away: none at first; n up to PENALTIES_ENDS_MAX. */
void sampler_set_ends(struct sampler *sampler, const uint32_t *ids, uint32_t n);

/* tokens: prompt then generated, n_prompt of n_tokens; the new token's position is n_tokens.
 * logits [vocabulary] are read only. logprobs_out may be NULL when params->n_logprobs is 0. May be SAMPLER_NO_TOKEN. */
uint32_t sampler_draw(struct sampler *sampler, const struct sampling_params *params,
                      const float *logits, const uint32_t *tokens, uint32_t n_prompt,
                      uint32_t n_tokens, struct token_logprobs *logprobs_out);

/* Its rules are about most of the row: what a device found of it is no help. */
bool sampler_takes_row(const struct sampling_params *params);
/* What penalties do to the row, an entry a token that they change. Returns how many: at most n_tokens, and the vocabulary.
 * list_out is the sampler's, until its next call. */
uint32_t sampler_list_penalties(struct sampler *sampler, const struct draw *draw,
                                const struct sampling_penalty **list_out);
/* From what a device found, with these penalties, draw's temperature, n_logprobs and the CANDIDATES_MAX best. False: the row
 * is wanted, nothing is said. */
bool sampler_draw_found(struct sampler *sampler, struct draw *draw,
                        const struct sampling_result *found);
/* From the row [vocabulary] behind them, whatever sampler_draw_found said. */
void sampler_draw_behind(struct sampler *sampler, struct draw *draw,
                         const struct sampling_result *found, const float *logits);
