/*
 * prefill_event - what a context worker reports about a prompt that a generation worker asked for.
 *
 * The engine of a context worker makes it. In a generation worker it is as it came over the wire: every field is checked before
 * its use.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "engine/backlog.h"
#include "kvcache/block_pool.h"
#include "sampling_params/prompt_scores.h"
#include "sampling_params/ranked_row.h"

enum prefill_event_kind {
    EVENT_BACKLOG,
    EVENT_ACCEPTED,
    EVENT_READY,
    EVENT_SCORES,
    EVENT_FIRST_TOKEN,
    EVENT_SEALED
};

/* Arrays are good during the call that has the event as an argument. Those of a first token and of a ready event behind it are good until
 * the seal is said, which follows in the same step, or the end. */
struct prefill_event {
    enum prefill_event_kind kind;
    union {
        struct backlog backlog;
        struct {
            uint32_t n_blocks; /* to transfer: those of the prompt after held_tokens */
            uint32_t block_tokens;
        } accepted;
        struct {
            uint32_t first_block; /* counted from the prompt's beginning */
            uint32_t n_blocks;
            const block_id *block_ids; /* [n_blocks] */
            const uint32_t *digests;   /* [n_blocks], or NULL when digests are off */
        } ready;
        struct prompt_scores scores;
        struct {
            uint32_t token_id;
            bool has_logprobs;
            struct token_logprobs logprobs;
            const struct ranked_row *ranked; /* of a beam search in place of the token; else NULL */
        } first_token;
        struct {
            uint32_t n_tokens;
            uint32_t cached_tokens; /* found in the context worker's prefix cache */
            uint64_t queue_us, compute_us;
        } sealed;
    };
};
