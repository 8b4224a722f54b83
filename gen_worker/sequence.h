/*
 * sequence - an admitted request: its blocks, its tokens and its progress.
 *
 *     RESERVED -> FETCHING -> COMMITTING -> DECODING -> (end) FREE
 *      ^  |           |           |          |  ^
 *      |  +-----------+-----------+-> LOCAL_PREFILL
 *      +------------- PAUSED <---------------+        from LOCAL_PREFILL and from a failed hand-over, too
 *
 *     tokens  [ prompt ............. | generated ... ]
 *     KV      [ cached | n_kv counts what may be used ]    never more than n_tokens - 1
 *
 * If the first token, from the context worker, is also the last one, the sequence needs no KV. It ends with the seal, which has
 * the figures, or with the failure that comes instead.
 *
 * A sequence has the blocks of all known tokens, and one more each time the schedule grants it. Blocks that were fetched from a
 * context worker count for n_kv only after the commit.
 *
 * A paused sequence keeps its tokens and no blocks. Its old blocks may still be in the prefix cache when it is resumed. The KV
 * of the prompt then comes from where it came first: from the context worker, or computed here. The KV of generated tokens is
 * computed here. No token is drawn twice or sent twice.
 *
 * Thread: the engine's.
 */
#pragma once

#include "gen_worker/sequence_beams.h"
#include "gen_worker/sequence_blocks.h"
#include "gen_worker/sequence_place.h"
#include "gen_worker/sequence_progress.h"

/* Becomes the job's owner: state PAUSED, as it has no blocks. */
void sequence_take_job(struct sequence *sequence, const struct gen_home *home, struct job *job);
/* Gives it back. */
void sequence_leave_job(struct sequence *sequence, const struct gen_home *home);

/* RESERVED -> LOCAL_PREFILL, where it wants no context worker, or no hand-over is free. Sets place and its reason. */
void sequence_start_local(struct sequence *sequence, const struct gen_home *home, uint64_t now_ns);
/* The rest of the known tokens is computed here. */
void sequence_begin_local(struct sequence *sequence, const struct gen_home *home, uint64_t now_ns);

/* The functions below may end the sequence: look at its state afterwards. */

/* One more token, drawn here or by the context worker. logprobs may be NULL. */
void sequence_add_token(struct sequence *sequence, const struct gen_home *home, uint32_t token_id,
                        const struct token_logprobs *logprobs);
/* In place of that, of a beam search: the rows behind its running beams. */
void sequence_add_ranked(struct sequence *sequence, const struct gen_home *home,
                         const struct ranked_row *rows);
/* Of a token that another process drew. CONSTRAINT_UNMET: the constraint does not allow it. Changes nothing. */
MUST_CHECK enum status sequence_judge_token(struct sequence *sequence, const struct gen_home *home,
                                            uint32_t token_id, struct error *error);
/* The result of a forward pass for one sequence. */
struct computed {
    uint32_t n_tokens; /* computed, after n_kv */
    bool has_token;    /* a token was drawn after them: the next one, or one to verify the first */
    uint32_t token_id;
    struct token_logprobs logprobs;
    const struct ranked_row *ranked; /* of a beam search in place of the token: [running beams] */
    const struct draw *fault;        /* NULL: none. Else there is no token */
};
void sequence_computed(struct sequence *sequence, const struct gen_home *home,
                       const struct computed *computed);

/* Its logits are not finite, or its rules leave no token: only this sequence ends. */
void sequence_end_without_token(struct sequence *sequence, const struct gen_home *home,
                                const struct draw *fault);

/* STOP or LENGTH when the last token ends the generation; STOP when it is both. */
enum gen_finish_reason sequence_finish_reason(const struct sequence *sequence,
                                              const struct gen_home *home);
/* Tells the client, caches blocks for later requests, gives the blocks back, and leaves the schedule. */
void sequence_end(struct sequence *sequence, const struct gen_home *home, enum status status,
                  const char *sentence);
