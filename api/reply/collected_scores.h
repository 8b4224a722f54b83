/*
 * collected_scores - the log-probabilities of a prompt's tokens until a reply, or a part of it, leaves, in the room that was asked for.
 *
 * Bounds: bytes_max of room; it grows with what came.
 *
 * Thread: one at a time.
 */
#pragma once

#include "sampling_params/prompt_scores.h"

#include <stdbool.h>
#include <stddef.h>

struct scored_token {
    uint32_t id;
    float logprob;
};

struct collected_scores {
    uint32_t n_top;              /* beside each token: set it first */
    uint32_t first;              /* token of the prompt */
    uint32_t n, room;            /* tokens, from that one on */
    struct scored_token *tokens; /* [n][1 + n_top] the token itself, then the likeliest */
};

/* Behind those that are there. token_ids [scores->n]. NO_MEMORY; REPLY_TOO_LONG: more than bytes_max. */
MUST_CHECK enum status collected_scores_add(struct collected_scores *collected,
                                            const uint32_t *token_ids,
                                            const struct prompt_scores *scores, size_t bytes_max);
/* What they count for in a reply of so many bytes. */
size_t collected_scores_bytes(const struct collected_scores *collected);
/* Whether they are those of a whole prompt of so many tokens. */
bool collected_scores_are_of(const struct collected_scores *collected, uint32_t n_prompt);
/* Of the i-th; returns its id. */
uint32_t collected_scores_get(const struct collected_scores *collected, uint32_t i,
                              struct token_logprobs *out);
/* They have left: the next ones follow. */
void collected_scores_clear(struct collected_scores *collected);
void collected_scores_finish(struct collected_scores *collected);
