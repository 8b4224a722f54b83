/*
 * sequence - one admitted request: its blocks, its tokens, and how far it has come.
 *
 *     RESERVED -> FETCHING -> COMMITTING -> DECODING -> (end) FREE
 *         |           |           |            ^
 *         +-----------+-----------+--> LOCAL_PREFILL
 *
 *     tokens  [ prompt ............. | generated ... ]
 *     KV      [ cached | n_kv counts what may be used ]    never more than n_tokens - 1
 *
 * A first token from the context worker that is the last one, too, needs no KV: the sequence ends with
 * the seal, which brings the figures, or with whatever comes in its place.
 *
 * Its blocks hold prompt + max_tokens from admission on. Blocks that a context worker's KV was
 * fetched into count for n_kv only after the commit.
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
    SEQUENCE_LOCAL_PREFILL,
    SEQUENCE_DECODING
};

struct sequence {
    enum sequence_state state;
    struct job *job; /* owned while not FREE */
    struct block_table table;
    struct prefix_hash *hashes; /* [table.blocks_max] */
    uint32_t *tokens;           /* [context_tokens] prompt, then generated */
    uint32_t n_tokens;
    uint32_t n_kv;              /* leading tokens whose KV is in the blocks and may be used */
    uint32_t n_cached;          /* of these, found in the prefix cache */
    struct handover *handover;  /* NULL: none, or closed */
    struct handover *waits_for; /* a closed one whose blocks it needs; NULL: none */
    bool is_fallback;
    bool has_told; /* tokens went out with the figures so far */
    struct gen_marks marks;
    bool has_other_kv;         /* of a context worker with other numerics: not for the cache */
    bool has_other_token;      /* the first was drawn by such a one */
    bool is_from_context;      /* the prompt was computed by the context worker, */
    uint32_t n_context_cached; /* which found these in its own prefix cache */
    enum gen_place place;      /* of the prompt's computation, as far as it is known */
    struct error place_reason; /* "" for a context worker */
    struct gen_timing timing;
};

MUST_CHECK enum status sequence_init(struct sequence *sequence, const struct gen_home *home);
void sequence_finish(struct sequence *sequence); /* gives all back; a zeroed one is fine */

/* Becomes the job's owner on success: state RESERVED. NO_BLOCKS: nothing changed. */
MUST_CHECK enum status sequence_take_job(struct sequence *sequence, const struct gen_home *home,
                                         struct job *job, uint64_t now_ns);
bool sequence_wants_context(const struct sequence *sequence, const struct gen_home *home);
/* Of one that does not, or for which no hand-over is free: says why. */
void sequence_start_local(struct sequence *sequence, const struct gen_home *home, uint64_t now_ns);
/* id: the new prefill's handle. */
void sequence_start_handover(struct sequence *sequence, const struct gen_home *home,
                             struct handover *handover, uint64_t id, uint64_t now_ns);

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
/* The hand-over failed: computes the prompt here, or ends. */
void sequence_fall_back(struct sequence *sequence, const struct gen_home *home, enum status status,
                        const char *sentence, uint64_t now_ns);
/* n_query more tokens of the prompt were computed here; token_id is what was drawn at its end. */
void sequence_computed(struct sequence *sequence, const struct gen_home *home, uint32_t n_query,
                       uint32_t token_id, const struct token_logprobs *logprobs);

/* May be in a batch now. */
bool sequence_is_runnable(const struct sequence *sequence);
uint32_t sequence_n_prompt(const struct sequence *sequence);

/* Tells the client, keeps what is worth keeping in the prefix cache, gives the blocks back. */
void sequence_end(struct sequence *sequence, const struct gen_home *home, enum status status,
                  const char *sentence);
