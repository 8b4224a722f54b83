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

#include "gen_worker/sequence_blocks.h"
#include "gen_worker/sequence_place.h"
#include "gen_worker/sequence_progress.h"

/* Becomes the job's owner: state PAUSED, as it has no blocks. */
void sequence_take_job(struct sequence *sequence, const struct gen_home *home, struct job *job);
/* Gives it back. */
void sequence_leave_job(struct sequence *sequence);

/* RESERVED -> LOCAL_PREFILL. Of one that does not, or for which no hand-over is free: says why. */
void sequence_start_local(struct sequence *sequence, const struct gen_home *home, uint64_t now_ns);
/* It computes here what is left of the tokens that it knows. */
void sequence_begin_local(struct sequence *sequence, const struct gen_home *home, uint64_t now_ns);

/* The functions below may end the sequence: look at its state afterwards. */

/* One more token, drawn here or by the context worker. logprobs may be NULL. */
void sequence_add_token(struct sequence *sequence, const struct gen_home *home, uint32_t token_id,
                        const struct token_logprobs *logprobs);
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

/* STOP or LENGTH when the last token ends the generation; STOP when it is both. */
enum gen_finish_reason sequence_finish_reason(const struct sequence *sequence,
                                              const struct gen_home *home);
/* Tells the client, keeps what is worth keeping in the prefix cache, gives the blocks back; the schedule
 * forgets it. */
void sequence_end(struct sequence *sequence, const struct gen_home *home, enum status status,
                  const char *sentence);
