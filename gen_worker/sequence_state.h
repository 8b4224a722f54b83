/*
 * sequence_state - the data of a sequence. sequence.h says how it changes.
 *
 * Thread: the engine's.
 */
#pragma once

#include "gen_worker/draft.h"
#include "gen_worker/handover.h"
#include "kvcache/kv_manager.h"

enum sequence_state {
    SEQUENCE_FREE,
    SEQUENCE_RESERVED,
    SEQUENCE_FETCHING,
    SEQUENCE_COMMITTING,
    SEQUENCE_LOCAL_PREFILL, /* computes known tokens here: a prompt, or after a pause */
    SEQUENCE_DECODING,
    SEQUENCE_PAUSED,
    SEQUENCE_LENT /* its table and tokens are a beam's of another sequence; it has no job */
};

#define SEQUENCE_ORIGINS_MAX 8u
#define SEQUENCE_AHEAD_MAX   8u /* so that no sequence makes a step long */

/* Of a beam search: sequence_beams.h. */
struct sequence_beams {
    struct sequence
        *lent[BEAMS_MAX];        /* [n_beams] slots: the sequence itself, then those lent to it */
    uint32_t slots[BEAMS_MAX];   /* of the running beams */
    uint32_t sources[BEAMS_MAX]; /* of each slot: whose copy it is to become; itself: none's */
};

struct sequence {
    enum sequence_state state;
    struct job *job; /* owned while not FREE */
    struct block_table table;
    struct prefix_hash *hashes; /* [table.spans_max] */
    uint32_t n_hashed;          /* spans; those of the prompt from the beginning */
    uint32_t *tokens;           /* [geometry_sequence_tokens] prompt, then generated */
    uint32_t n_tokens;
    uint32_t n_kv; /* leading tokens whose KV is in the blocks and may be used */
    uint32_t
        n_ahead; /* while DECODING: tokens behind the last drawn one, which a constraint forced; computed with that */
    uint32_t
        n_kv_max; /* the most that n_kv ever was: computing these again counts as tokens_again */
    struct sequence_beams beams;
    struct draft_luck luck;
    uint32_t n_drafted, n_accepted; /* tokens that were guessed; of these, drawn and kept */
    uint32_t n_cached; /* prompt tokens that the prefix cache had when they were needed first */
    uint32_t n_branch, n_cut; /* as a prefill's: ctx_worker/prefill.h */
    uint32_t n_scored; /* prompt tokens whose log-probabilities were told: sequence_scores.h */
    struct handover *handover; /* NULL: none, or closed */
    bool crosses;              /* its blocks are those for a hand-over */
    bool is_fallback;
    bool must_verify; /* a context worker drew the first token, and the prompt is computed here */
    bool has_prompt;  /* the KV of the prompt was complete at some time */
    bool has_told;    /* tokens were sent with the figures so far */
    /* The incarnations whose KV its tokens depend on, up to its last pause. More than the limit: any may be. */
    uint32_t n_origins;
    uint64_t origins[SEQUENCE_ORIGINS_MAX];
    struct gen_marks marks;
    bool
        has_other_kv; /* not for the cache: from a context worker with other numerics, or its logits are not finite */
    bool has_other_token;      /* a context worker with other numerics drew the first token */
    bool is_from_context;      /* the prompt was computed by the context worker, */
    uint32_t n_context_cached; /* which found these in its own prefix cache */
    enum gen_place place;      /* where the prompt is computed, as far as it is known */
    struct error place_reason; /* "" for a context worker */
    struct gen_timing timing;
};

MUST_CHECK enum status sequence_init(struct sequence *sequence, const struct gen_home *home);
void sequence_finish(struct sequence *sequence); /* gives all back; a zeroed one is fine */

/* Of a request: neither free nor lent. */
static inline bool sequence_has_job(const struct sequence *sequence)
{
    return sequence->state != SEQUENCE_FREE && sequence->state != SEQUENCE_LENT;
}

/* LOCAL_PREFILL or DECODING, by what is left to compute of the tokens that it knows; of those ahead, n_ahead. */
void sequence_settle(struct sequence *sequence);
/* May be in a batch now. */
bool sequence_is_runnable(const struct sequence *sequence);
uint32_t sequence_n_prompt(const struct sequence *sequence);
uint32_t sequence_n_generated(const struct sequence *sequence);
schedule_id sequence_schedule_id(const struct sequence *sequence);
/* Of its first n_tokens tokens, those that are the prompt's. */
uint32_t sequence_n_of_prompt(const struct sequence *sequence, uint32_t n_tokens);

/* Scores of the prompt are asked for, and some are still to be told. */
bool sequence_wants_scores(const struct sequence *sequence);
/* Of its first n_tokens tokens, how many need no row for that: their KV may come from anywhere. */
uint32_t sequence_n_rowless(const struct sequence *sequence, uint32_t n_tokens);
