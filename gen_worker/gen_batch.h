/*
 * gen_batch - one forward pass of a generation worker: chunks of local prompts as far as their
 * token budget goes, then one token of every decoding sequence.
 *
 * Bounds: sequences_max sequences, batch_tokens + sequences_max tokens; all allocated in init.
 * Thread: the engine's.
 */
#pragma once

#include "gen_worker/sequence.h"

/* What the pass made of one sequence. */
struct gen_result {
    struct sequence *sequence;
    uint32_t n_query;
    bool has_token;
    uint32_t token_id;
    struct token_logprobs logprobs;
};

struct gen_batch {
    struct forward *forward;
    struct sampler *sampler;
    struct forward_sequence *inputs; /* [sequences_max] */
    struct gen_result *results;      /* [sequences_max] */
    float *logits;                   /* [sequences_max][vocabulary] */
    uint32_t n;                      /* sequences in the pass */
    uint32_t n_contexts;             /* of these, chunks of prompts */
    uint32_t next_slot;              /* whose chunk comes first in the next pass */
};

MUST_CHECK enum status gen_batch_init(struct gen_batch *batch,
                                      const struct gen_engine_options *options,
                                      struct error *error);
void gen_batch_finish(struct gen_batch *batch); /* a zeroed one is fine */

/* sequences: [sequences_max]. Changes none of them; results[0 .. n - 1] say what is new. n 0: nothing is to be
 * computed. DEVICE_LOST: there are no results. */
MUST_CHECK enum status gen_batch_run(struct gen_batch *batch, const struct gen_home *home,
                                     struct sequence *sequences);
