/*
 * ctx_batch - one forward pass of a context worker over chunks that the schedule chose, at most one of each prompt.
 *
 *     add, add ... -> run: forward pass -> each prompt advances, the ended ones with their first token
 *
 * Bounds: slots_max chunks, batch_tokens tokens; everything is allocated in init.
 * Thread: the engine's.
 */
#pragma once

#include "ctx_worker/prefill.h"
#include "engine/draw_masks.h"
#include "model/sampling/draws.h"
#include "model/sampling/scorer.h"

/* A prompt that did not advance: its logits are not finite, so it has no first token. */
struct ctx_failed {
    struct prefill *prefill;
    enum status
        status; /* LOGITS_NOT_FINITE; INVALID_ARGUMENT, CONSTRAINT_UNMET: its rules leave no token */
    struct error why;
};

struct ctx_batch {
    struct forward *forward;             /* the options' */
    const struct encoder_shape *encoder; /* the model's */
    struct draws *draws;
    struct draw_masks *masks;
    struct scorer *scorer;
    uint32_t n, n_texts, chunks_max;
    struct forward_sequence *chunks; /* [chunks_max] */
    uint32_t *n_queries;        /* [chunks_max] tokens of the prompt; with an encoder of its line */
    struct forward_text *texts; /* [chunks_max] n_texts: computed before the chunks */
    struct prefill **prefills;  /* [chunks_max] whose chunk it is */
    struct draw *wanted;        /* [chunks_max], of the prompts that end */
    struct token_logprobs *logprobs; /* [chunks_max], theirs */
    struct ranked_row *ranked;       /* [chunks_max] of beam searches in their place */
    uint32_t n_wanted;
    uint32_t n_failed;
    struct ctx_failed *failed; /* [chunks_max] of the last run */
};

MUST_CHECK enum status ctx_batch_init(struct ctx_batch *batch,
                                      const struct ctx_engine_options *options);
void ctx_batch_finish(struct ctx_batch *batch); /* a zeroed one is fine */

struct ctx_batch_result {
    uint32_t n_tokens;
    uint32_t n_blocks_published;
};

/* The next n_query tokens of a prompt that is computing; prefill is borrowed until run. */
void ctx_batch_add(struct ctx_batch *batch, struct prefill *prefill, uint32_t n_query);
/* Computes what was added, at least one chunk. The batch is empty afterwards. The caller ends the prompts in failed, with
 * their status. DEVICE_LOST: perhaps not all prefills advanced. */
MUST_CHECK enum status ctx_batch_run(struct ctx_batch *batch, const struct prefill_home *home,
                                     struct ctx_batch_result *result_out);
