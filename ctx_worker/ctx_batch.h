/*
 * ctx_batch - one forward pass of a context worker: one chunk of each prompt, of callers and of each
 * one's prompts in turn, as far as the token budget of a step goes.
 *
 * A chunk is at most chunk_tokens, and whole blocks unless it is the prompt's last. Who found no room
 * comes first the next time.
 *
 * Bounds: slots_max chunks, batch_tokens tokens; everything is allocated in init.
 * Thread: the engine's.
 */
#pragma once

#include "ctx_worker/prefill.h"

struct ctx_batch {
    struct forward *forward;
    struct sampler *sampler;
    struct forward_sequence *chunks; /* [slots_max] */
    uint32_t *slots;                 /* [slots_max] whose chunk it is */
    float *logits;                   /* [slots_max][vocabulary] */
    bool *is_chosen;                 /* [slots_max] by slot */
    uint32_t next_slot;              /* comes first in the next batch */
};

MUST_CHECK enum status ctx_batch_init(struct ctx_batch *batch,
                                      const struct ctx_engine_options *options,
                                      struct error *error);
void ctx_batch_finish(struct ctx_batch *batch); /* a zeroed one is fine */

struct ctx_batch_result {
    uint32_t n_tokens;
    uint32_t n_blocks_published;
};

/* prefills: [slots_max]. n_tokens 0: nothing is to be computed. DEVICE_LOST: no prefill was advanced. */
MUST_CHECK enum status ctx_batch_run(struct ctx_batch *batch, const struct prefill_home *home,
                                     struct prefill *prefills, struct ctx_batch_result *result_out);
