/*
 * sequence - one request that was admitted: its blocks, its tokens, and how far it has come.
 *
 *     RESERVED -> FETCHING -> COMMITTING -> DECODING -> (end) FREE
 *      ^  |           |           |          |  ^
 *      |  +-----------+-----------+-> LOCAL_PREFILL
 *      +------------- PAUSED <---------------+        from LOCAL_PREFILL and from a failed hand-over, too
 *
 *     tokens  [ prompt ............. | generated ... ]
 *     KV      [ cached | n_kv counts what may be used ]    never more than n_tokens - 1
 *
 * A first token from the context worker that is the last one, too, needs no KV: the sequence ends with
 * the seal, which brings the figures, or with whatever comes in its place.
 *
 * Its blocks are those of all known tokens, and one more whenever the schedule grants it. Blocks that a
 * context worker's KV was fetched into count for n_kv only after the commit.
 *
 * A paused one keeps its tokens and no block; what it had may still be in the prefix cache when its turn comes
 * again. Then its prompt's KV comes from where it came first: from the context worker, or it is computed here,
 * and that of its generated tokens is computed here. No token is drawn or told twice.
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

/* Becomes the job's owner: state PAUSED, as it has no blocks. */
void sequence_take_job(struct sequence *sequence, const struct gen_home *home, struct job *job);
/* Gives it back. */
void sequence_leave_job(struct sequence *sequence);

/* PAUSED -> RESERVED: with so many blocks, those in the prefix cache included, of which it tells the schedule.
 * NO_BLOCKS: nothing changed. */
MUST_CHECK enum status sequence_take_blocks(struct sequence *sequence, const struct gen_home *home,
                                            uint32_t n_blocks, uint64_t now_ns);
/* So many blocks in all, as block_table_grow. NO_BLOCKS: as before. */
MUST_CHECK enum status sequence_grow(struct sequence *sequence, uint32_t n_blocks);
/* The first n blocks that the prefix cache might have of what it knows. */
uint32_t sequence_lookup_blocks(const struct sequence *sequence);
bool sequence_wants_context(const struct sequence *sequence, const struct gen_home *home);
/* RESERVED -> LOCAL_PREFILL. Of one that does not, or for which no hand-over is free: says why. */
void sequence_start_local(struct sequence *sequence, const struct gen_home *home, uint64_t now_ns);
/* id: the new prefill's handle. */
void sequence_start_handover(struct sequence *sequence, const struct gen_home *home,
                             struct handover *handover, uint64_t id, uint64_t now_ns);

/* LOCAL_PREFILL or DECODING -> PAUSED, as the schedule has said: gives its blocks back. */
void sequence_pause(struct sequence *sequence, const struct gen_home *home);
/* For the prefix cache: the prompt's whole blocks, or those of all tokens, whose KV is known to be right; of what was generated
 * only where prompts would have the same bits (forward_phases_agree). */
void sequence_keep_prompt(struct sequence *sequence, const struct gen_home *home);
void sequence_keep_all(struct sequence *sequence, const struct gen_home *home);
/* Nothing of it that was not there before stays in the prefix cache. */
void sequence_forget(struct sequence *sequence, const struct gen_home *home);
/* Its tokens rest, or rested, on KV of that incarnation's. */
bool sequence_has_used(const struct sequence *sequence, uint64_t incarnation);

/* The functions below may end the sequence: look at its state afterwards. */

/* One more token, drawn here or by the context worker. logprobs may be NULL. */
void sequence_add_token(struct sequence *sequence, const struct gen_home *home, uint32_t token_id,
                        const struct token_logprobs *logprobs);
/* An event of its hand-over. */
void sequence_on_event(struct sequence *sequence, const struct gen_home *home,
                       const struct gen_prefill_event *event, uint64_t now_ns);
/* Commits when all has arrived. */
void sequence_try_commit(struct sequence *sequence, const struct gen_home *home, uint64_t now_ns);
/* The commit was granted: the fetched KV may be used. */
void sequence_committed(struct sequence *sequence, const struct gen_home *home, uint64_t now_ns);
/* The hand-over failed: computes the prompt here, or ends. While its blocks may still be written it is paused:
 * it takes others when it is its turn. */
void sequence_fall_back(struct sequence *sequence, const struct gen_home *home, enum status status,
                        const char *sentence, uint64_t now_ns);

/* What a forward pass made of it. */
struct computed {
    uint32_t n_tokens; /* behind n_kv */
    bool has_token;    /* drawn behind them: the next one, or to verify the first */
    uint32_t token_id;
    struct token_logprobs logprobs;
    const struct draw *fault; /* NULL: none. There is no such token */
};
void sequence_computed(struct sequence *sequence, const struct gen_home *home,
                       const struct computed *computed);

/* May be in a batch now. */
bool sequence_is_runnable(const struct sequence *sequence);
uint32_t sequence_n_prompt(const struct sequence *sequence);
/* Of its first n_tokens tokens, those that are the prompt's. */
uint32_t sequence_n_of_prompt(const struct sequence *sequence, uint32_t n_tokens);

/* Of a prompt that is computed here: its place, and the sentence that says why. */
void sequence_say_why_local(struct sequence *sequence, const struct gen_home *home);
/* Of one whose hand-over failed. What was computed by an earlier one keeps its place. */
void sequence_say_why_failed(struct sequence *sequence, enum status status, const char *sentence,
                             uint64_t now_ns);

/* How far the prompt is, to a client who wants to know: nothing behind the first token. */
void sequence_tell_progress(const struct sequence *sequence, const struct gen_home *home);
/* Into the figures of prompts that are under way, if its own is. */
void sequence_count_prefill(const struct sequence *sequence, struct gen_engine_stats *stats);

/* Tells the client, keeps what is worth keeping in the prefix cache, gives the blocks back; the schedule
 * forgets it. */
void sequence_end(struct sequence *sequence, const struct gen_home *home, enum status status,
                  const char *sentence);
