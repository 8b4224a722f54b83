/*
 * sequence_scores - the log-probabilities of a prompt's tokens: told to the client once and in order, before the first token.
 *
 *     context worker --events--> on_scores --+
 *                                            +--> what was not told yet --> the client
 *     a chunk computed here -----> score ----+
 *
 * n_scored counts what was told, so a pause, a fall-back or a second hand-over repeats nothing. Until all is told, no token whose row
 * is needed comes from the prefix cache.
 *
 * Thread: the engine's.
 */
#pragma once

#include "gen_worker/sequence_state.h"
#include "model/sampling/scorer.h"

/* Some are still to be told (sequence_wants_scores), and the next n_tokens tokens have rows for it. */
bool sequence_keeps_rows(const struct sequence *sequence, uint32_t n_tokens);

/* Both may end the sequence: look at its state afterwards. */

/* The next n_tokens tokens were computed as the rows from first_row on of the last step, and the sequence has not advanced yet.
 * DEVICE_LOST. Another failure ends the sequence. */
MUST_CHECK enum status sequence_score(struct sequence *sequence, const struct gen_home *home,
                                      struct scorer *scorer, uint32_t n_tokens, uint32_t first_row);
/* Not OK: the context worker said something wrong, and error says what. */
MUST_CHECK enum status sequence_on_scores(struct sequence *sequence, const struct gen_home *home,
                                          const struct prompt_scores *scores, struct error *error);
