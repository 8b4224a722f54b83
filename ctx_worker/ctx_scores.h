/*
 * ctx_scores - tells a reader the log-probabilities of its prompt, chunk by chunk, each token once and in order.
 *
 * A prompt is computed in order and once, without the prefix cache, so what was told is what was computed.
 *
 * Thread: the engine's.
 */
#pragma once

#include "ctx_worker/prefill.h"
#include "model/sampling/scorer.h"

static inline bool prompt_wants_scores(const struct prompt *prompt)
{
    return prompt->request.sampling.scores_prompt;
}

/* The next n_query tokens of a prompt that wants scores were computed as the rows from first_row on of the last step, and prefill
 * has not advanced yet. LOGITS_NOT_FINITE: fault_out says where, and some may have been told; DEVICE_LOST. */
MUST_CHECK enum status ctx_scores_tell(struct scorer *scorer, const struct prefill_home *home,
                                       const struct prefill *prefill, uint32_t n_query,
                                       uint32_t first_row, struct draw *fault_out);
