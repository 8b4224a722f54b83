/*
 * sampler - draws the next token from logits.
 *
 * Order: repetition, presence and frequency penalties; temperature; top-k; top-p; min-p; draw.
 *
 *     repetition   for tokens of prompt and generation: divides a positive logit, multiplies any other
 *     presence     for generated tokens: subtracted once;  frequency: subtracted for each occurrence
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

#include "base/status.h"
#include "sampling_params/sampling_params.h"

struct kernels;
struct sampler;          /* scratch for one vocabulary */
struct sampling_penalty; /* both: kernels/cuda/sampling_parameters.h */
struct sampling_result;

/* One row to draw from, and the result. tokens: prompt, then generated; the new token's position is n_tokens. */
struct draw {
    const struct sampling_params *params;
    const uint32_t *tokens;
    uint32_t n_prompt, n_tokens;
    struct token_logprobs
        *logprobs; /* filled if params->n_logprobs is above 0; else it may be NULL */
    uint32_t token_id;
    /* LOGITS_NOT_FINITE: a logit is NaN, or the largest is not finite. Then token_id and logit are those at fault. */
    enum status status;
    float logit;
};

/* kernels are borrowed. NO_MEMORY. */
MUST_CHECK enum status sampler_create(uint32_t vocabulary, const struct kernels *kernels,
                                      struct sampler **sampler_out);
void sampler_destroy(struct sampler *sampler); /* NULL is fine */

/* tokens: prompt then generated, n_prompt of n_tokens; the new token's position is n_tokens.
 * logits [vocabulary] are read only. logprobs_out may be NULL when params->n_logprobs is 0. */
uint32_t sampler_draw(struct sampler *sampler, const struct sampling_params *params,
                      const float *logits, const uint32_t *tokens, uint32_t n_prompt,
                      uint32_t n_tokens, struct token_logprobs *logprobs_out);

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
