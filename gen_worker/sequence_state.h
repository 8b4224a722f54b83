/*
 * sequence_state - what is known of a sequence. sequence.h says what becomes of it.
 *
 * Thread: the engine's.
 */
#pragma once

#include "gen_worker/handover.h"
#include "kvcache/block_table.h"

enum sequence_state {
    SEQUENCE_FREE,
    SEQUENCE_RESERVED,
    SEQUENCE_FETCHING,
    SEQUENCE_COMMITTING,
    SEQUENCE_LOCAL_PREFILL, /* known tokens are computed here: of the prompt, or after a pause */
    SEQUENCE_DECODING,
    SEQUENCE_PAUSED
};

#define SEQUENCE_ORIGINS_MAX 8u

struct sequence {
    enum sequence_state state;
    struct job *job; /* owned while not FREE */
    struct block_table table;
    struct prefix_hash *hashes; /* [table.blocks_max] */
    uint32_t *tokens;           /* [context_tokens] prompt, then generated */
    uint32_t n_tokens;
    uint32_t n_kv;     /* leading tokens whose KV is in the blocks and may be used */
    uint32_t n_kv_max; /* the most that it ever was: computing these again is counted apart */
    uint32_t n_cached; /* of the prompt, found in the prefix cache when they were first needed */
    struct handover *handover; /* NULL: none, or closed */
    bool is_fallback;
    bool must_verify; /* the first token was drawn elsewhere, and the prompt is computed here */
    bool has_prompt;  /* its KV was complete at some time */
    bool has_told;    /* tokens went out with the figures so far */
    /* Whose KV its tokens were drawn with before its last pause. Over the limit: anybody's. */
    uint32_t n_origins;
    uint64_t origins[SEQUENCE_ORIGINS_MAX];
    struct gen_marks marks;
    bool
        has_other_kv; /* not for the cache: of a context worker with other numerics, or with logits that are
                                  no numbers behind it */
    bool has_other_token;      /* the first was drawn by such a one */
    bool is_from_context;      /* the prompt was computed by the context worker, */
    uint32_t n_context_cached; /* which found these in its own prefix cache */
    enum gen_place place;      /* of the prompt's computation, as far as it is known */
    struct error place_reason; /* "" for a context worker */
    struct gen_timing timing;
};

MUST_CHECK enum status sequence_init(struct sequence *sequence, const struct gen_home *home);
void sequence_finish(struct sequence *sequence); /* gives all back; a zeroed one is fine */

/* LOCAL_PREFILL or DECODING, by what is left to compute of the tokens that it knows. */
void sequence_settle(struct sequence *sequence);
/* May be in a batch now. */
bool sequence_is_runnable(const struct sequence *sequence);
uint32_t sequence_n_prompt(const struct sequence *sequence);
uint32_t sequence_n_generated(const struct sequence *sequence);
schedule_id sequence_schedule_id(const struct sequence *sequence);
/* Of its first n_tokens tokens, those that are the prompt's. */
uint32_t sequence_n_of_prompt(const struct sequence *sequence, uint32_t n_tokens);
