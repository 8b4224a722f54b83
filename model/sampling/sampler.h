/*
 * sampler - draws the next token from logits.
 *
 * Order: repetition, presence and frequency penalties; logit_bias; tokens that may not be drawn; temperature; top-k; top-p;
 * min-p; typical, epsilon, eta (filters.h); draw.
 *
 *     repetition   for tokens of prompt and generation: divides a positive logit, multiplies any other
 *     presence     for generated tokens: subtracted once;  frequency: subtracted for each occurrence
 *     not drawn    all but allowed_token_ids and those of a mask (a constraint's); before min_tokens the tokens that end a reply; bad_words; what
 *                  would repeat no_repeat_ngram_size tokens; what the model suppresses (penalties.h): -infinity
 *     rank         by logit; with equal logits the lower id is first; temperature 0 takes the first rank
 *     top-k        keeps exactly the k first ranks
 *     top-p        of the tokens that top-k keeps, keeps the fewest first ranks whose share reaches top_p
 *     min-p        keeps tokens that are at least min_p times as likely as the first rank
 *     draw         takes the first kept token, in the order below, at which the running sum of
 *                  likelihoods exceeds u times the sum of all kept tokens,
 *                  u = mix(mix(seed + G) + (t + 1) G) / 2^64 for the token at position t (mix, G: those
 *                  of splitmix64; 53 bits are used)
 *     order        of the draw: the 256 first ranks after the penalties, by rank, then the others
 *                  by id
 *
 * So the drawn token is nearly always among the 256 likeliest (candidates.h), which one pass finds. The row is
 * read again only if u falls on another token, or if a filter keeps more than 256.
 *
 * u depends only on (seed, t): the same seed gives the same tokens in any batch, and on any worker with the
 * same numerics. (The sum of the whole row is computed in float32 in the order of the kernels; with other
 * kernels about one draw in 10^6 gives a neighbouring token.) A NaN logit is never drawn while there is
 * another. A token with less than 2^-64 of the first rank's likelihood is never drawn. Log-probabilities
 * are those of the model: before penalties, temperature and filters.
 *
 * If a device finds the candidates (forward_find), the draw is the same, but uses the device's sums, also if the row is
 * fetched. So token and log-probabilities have the same bits whether the row was fetched or not. The sums of another
 * device, or of a host, differ by rounding of float32.
 *
 * Thread: any; the scratch of a sampler belongs to one.
 */
#pragma once

#include "model/sampling/draw.h"

struct kernels;
struct sampler;          /* scratch for one vocabulary */
struct sampling_penalty; /* both: kernels/cuda/sampling_parameters.h */
struct sampling_result;

#define SAMPLER_NO_TOKEN UINT32_MAX /* the rules of the request leave none that may be drawn */

/* kernels are borrowed. NO_MEMORY. */
MUST_CHECK enum status sampler_create(uint32_t vocabulary, const struct kernels *kernels,
                                      struct sampler **sampler_out);
void sampler_destroy(struct sampler *sampler); /* NULL is fine */
/* The model's end-of-sequence tokens, which min_tokens keeps away: none at first; n up to PENALTIES_ENDS_MAX. */
void sampler_set_ends(struct sampler *sampler, const uint32_t *ids, uint32_t n);
/* Tokens that the model never gives: none at first; each once. Borrowed until sampler_destroy. */
void sampler_set_suppressed(struct sampler *sampler, const uint32_t *ids, uint32_t n);

/* tokens: prompt then generated, n_prompt of n_tokens; the new token's position is n_tokens.
 * logits [vocabulary] are read only. logprobs_out may be NULL when params->n_logprobs is 0. May be SAMPLER_NO_TOKEN. */
uint32_t sampler_draw(struct sampler *sampler, const struct sampling_params *params,
                      const float *logits, const uint32_t *tokens, uint32_t n_prompt,
                      uint32_t n_tokens, struct token_logprobs *logprobs_out);

/* What a beam search needs in place of a token: the first n ranks (fewer, if the rules leave fewer) of the log-probabilities of the
 * row, after penalties and rules that treat them as they do logits. A mask leaves a forced token, whose log-probability is 0 then.
 * Returns how many; 0: the rules leave none. */
uint32_t sampler_rank_row(struct sampler *sampler, const struct draw *draw, const float *logits,
                          uint32_t n, struct ranked_row *row_out);

/* Of the parts of draw above token_id, and with its mask: also within allowed_token_ids. */
uint32_t sampler_draw_row(struct sampler *sampler, const struct draw *draw, const float *logits);

/* The rules or the mask concern most of the row: candidates of a device do not help. */
bool sampler_takes_row(const struct draw *draw);
/* Lists the penalties of the row, one entry for each token that they change. Returns the number of entries: at most
 * n_tokens, and at most the vocabulary. list_out is borrowed until the next call of the sampler. */
uint32_t sampler_list_penalties(struct sampler *sampler, const struct draw *draw,
                                const struct sampling_penalty **list_out);
/* Draws from the candidates of a device, which it found with these penalties and the temperature and n_logprobs of draw.
 * False: the row is needed, and draw is unchanged. */
bool sampler_draw_found(struct sampler *sampler, struct draw *draw,
                        const struct sampling_result *found);
/* Draws from the candidates and the row [vocabulary]. Also right where sampler_draw_found returned true. */
void sampler_draw_behind(struct sampler *sampler, struct draw *draw,
                         const struct sampling_result *found, const float *logits);
