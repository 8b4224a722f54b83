/*
 * sequence_beams - the beams of a sequence whose request asks for a beam search.
 *
 *     prompt        one sequence, as any other
 *     first tokens  ranked, by a context worker or here; then each beam has a table, in a sequence that is lent to it
 *     a step        computes a token of each beam, ranks what follows, and tells which beams go on, as copies of which
 *     a copy        is made before the next step computes: whole blocks are shared, the open one's bytes are copied
 *
 * The first beam that goes on from another keeps its table, so each beam always has one open block of its own, and copies take none but
 * at first. Where rules leave fewer beams, the others have blocks all the same: the schedule counts them. Nothing is told before the search is over. So a pause, or a hand-over that fails, begins the search again: with the same
 * tokens, because a row's bits depend on nothing but its tokens.
 *
 * Thread: the engine's.
 */
#pragma once

#include "gen_worker/sequence_state.h"
#include "sampling_params/ranked_row.h"

/* Whether its request asks for a beam search. */
bool sequence_searches(const struct sequence *sequence);

/* For a sequence that has just taken its job: lends it free sequences, which there are as the schedule counts places. */
void sequence_take_beams(struct sequence *sequence, const struct gen_home *home);
/* Gives these and their blocks back. */
void sequence_leave_beams(struct sequence *sequence, const struct gen_home *home);
/* Forgets what was generated, and gives back the blocks of all beams but the first. The schedule has paused it, or a hand-over of it
 * failed. */
void sequence_restart_beams(struct sequence *sequence, const struct gen_home *home);

/* Beams that run, which a step computes a token of: 1 before the first tokens are known. */
uint32_t sequence_n_running(const struct sequence *sequence);
/* The table and the tokens of one. */
struct sequence *sequence_beam(const struct sequence *sequence, uint32_t i);

/* Before a step computes a token of each: makes the copies, and takes the blocks that need asks for. NO_BLOCKS: some are there. */
MUST_CHECK enum status sequence_prepare_beams(struct sequence *sequence,
                                              const struct gen_home *home,
                                              const struct block_need *need);
/* After a step: the blocks of all beams but the first, as kv_manager_settle. */
void sequence_settle_beams(struct sequence *sequence, const struct gen_home *home,
                           uint32_t position);

/* The rows behind the running beams, in their order: one more token of each is known. INVALID_ARGUMENT: the search is over with fewer
 * replies than the request asks for. */
MUST_CHECK enum status sequence_advance_beams(struct sequence *sequence,
                                              const struct ranked_row *rows, struct error *error);
