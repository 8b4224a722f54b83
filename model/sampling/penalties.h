/*
 * penalties - what a request does to the logits of single tokens before a draw, one entry a token: of seen tokens, of
 * logit_bias, and of tokens that may not be drawn.
 *
 *     entry          a positive logit is divided by factor, another multiplied; then subtract is taken off
 *     seen           factor: repetition_penalty; subtract: presence and frequency penalty
 *     logit_bias     taken off subtract
 *     not drawn      subtract is infinite: before min_tokens of what ends a reply, of bad_words, of what would repeat
 *                    no_repeat_ngram_size tokens of prompt and reply, and of what the model suppresses
 *
 * allowed_token_ids are no entries: they would be the rest of the vocabulary.
 *
 * Bounds: an entry of each token of the vocabulary. No time for what a request does not ask for, else in proportion to its
 * tokens and rules.
 *
 * Thread: one at a time.
 */
#pragma once

#include "base/status.h"

#include <stdint.h>

struct draw;             /* model/sampling/draw.h */
struct sampling_penalty; /* kernels/cuda/sampling_parameters.h */

#define PENALTIES_ENDS_MAX 256u /* EOS_IDS_MAX of model_config.h */

struct penalties {
    uint32_t vocabulary;
    uint32_t *counts;              /* [vocabulary] all 0 between calls */
    struct sampling_penalty *list; /* [vocabulary] */
    uint32_t n_ends;
    uint32_t ends[PENALTIES_ENDS_MAX]; /* the model's end-of-sequence tokens */
    uint32_t n_suppressed;
    const uint32_t *suppressed; /* what the model never gives */
};

/* NO_MEMORY. A zeroed one may be finished. */
MUST_CHECK enum status penalties_init(struct penalties *penalties, uint32_t vocabulary);
void penalties_finish(struct penalties *penalties);
/* ids are below the vocabulary, n up to PENALTIES_ENDS_MAX. */
void penalties_set_ends(struct penalties *penalties, const uint32_t *ids, uint32_t n);

/* ids are below the vocabulary, and borrowed. */
void penalties_set_suppressed(struct penalties *penalties, const uint32_t *ids, uint32_t n);

/* Fills list; returns the number of entries. */
uint32_t penalties_make(struct penalties *penalties, const struct draw *draw);
