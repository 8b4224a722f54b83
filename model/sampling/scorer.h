/*
 * scorer - the log-probabilities of a prompt's tokens, each given those before it, chunk by chunk as they are computed.
 *
 *     token of the prompt     0       1        2     ...   n - 1      (the first generated one)
 *     scored by the row of    none    token 0  token 1     token n - 2 (token n - 1: draws)
 *
 * So the chunk of the tokens [n_past, n_past + n_query) scores the tokens [n_past + 1, n_past + n_query + 1) of the prompt, and the
 * first one token 0, too, whose score is zeros.
 *
 * Rows are computed some at a time (forward_rows), so that the memory does not grow with the chunk. Their bits, and those of the
 * scores, do not depend on the chunks. On a device that finds, rows are fetched whole, and the host sums.
 *
 * Thread: the one of the forward pass.
 */
#pragma once

#include "model/forward/forward.h"
#include "model/sampling/draw.h"
#include "sampling_params/prompt_scores.h"

struct scorer;

/* forward and kernels (the host's) are borrowed. NO_MEMORY. */
MUST_CHECK enum status scorer_create(struct forward *forward, const struct kernels *kernels,
                                     struct scorer **scorer_out);
void scorer_destroy(struct scorer *scorer); /* NULL is fine */

/* Rows without scores since the start. */
uint64_t scorer_n_not_finite(const struct scorer *scorer);

/* A chunk of the last step that keeps its rows. */
struct scored_chunk {
    uint32_t first_row; /* of its first token, counted from the step's first sequence on */
    uint32_t n_past, n_query;
    const uint32_t *tokens; /* [n_prompt] */
    uint32_t n_prompt;
    uint32_t n_top; /* likeliest tokens to tell, at most LOGPROBS_MAX */
};

/* The token behind the last one that the chunk scores. */
uint32_t scored_chunk_end(const struct scored_chunk *chunk);

/* The scores of first and some tokens behind it, below scored_chunk_end; scores_out is borrowed until the next call.
 * LOGITS_NOT_FINITE: fault_out says of which row; DEVICE_LOST. */
MUST_CHECK enum status scorer_run(struct scorer *scorer, const struct scored_chunk *chunk,
                                  uint32_t first, struct prompt_scores *scores_out,
                                  struct draw *fault_out);
