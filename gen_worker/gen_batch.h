/*
 * gen_batch - one forward pass of a generation worker: what the schedule proposes, as far as there are blocks
 * for it.
 *
 * Chunks go over prompts and, after a pause, over generated tokens, which are then computed by the kernels of
 * prompts: with the same bits, or init refuses to pause anybody (forward_phases_agree). A prompt whose first
 * token a context worker drew is computed to its end and no further, so that
 * the first token can be drawn again.
 *
 * Bounds: sequences_max sequences, batch_tokens + sequences_max tokens; all allocated in init.
 * Thread: the engine's.
 */
#pragma once

#include "gen_worker/sequence.h"
#include "schedule/schedule.h"

struct gen_result {
    struct sequence *sequence;
    struct computed computed;
};

struct gen_batch {
    struct forward *forward; /* the options' */
    struct draws *draws;
    struct forward_sequence *inputs; /* [sequences_max] */
    struct gen_result *results;      /* [sequences_max] */
    struct draw *wanted;             /* [sequences_max], of those whose logits are */
    uint32_t n_wanted;
    uint32_t n;          /* sequences in the pass */
    uint32_t n_contexts; /* of these, chunks; they come first */
    uint32_t n_decodes;  /* of these, one token each, and the next one drawn */
    uint32_t n_left_out; /* the pool had no block for them after all */
};

MUST_CHECK enum status gen_batch_init(struct gen_batch *batch,
                                      const struct gen_engine_options *options,
                                      struct error *error);
void gen_batch_finish(struct gen_batch *batch); /* a zeroed one is fine */

/* Lets tables grow and computes. Moves no sequence on; results[0 .. n - 1] say what is new. n 0: nothing
 * was to be computed. DEVICE_LOST: there are no results. */
MUST_CHECK enum status gen_batch_run(struct gen_batch *batch, const struct gen_home *home,
                                     const struct schedule_batch *plan);
