/*
 * choice_scores - the log-probabilities of a prompt's tokens on their way from a worker to the door: each once, in order and before
 * the first token, whatever attempts there are. Choice 0 has them; the others share the prompt.
 *
 * Thread: dispatch's mutex.
 */
#pragma once

#include "router/requests/generation_state.h"

/* Whether the choice's worker is to be asked for them. */
bool choice_asks_for_scores(const struct choice *choice);
/* Some have not come: not OK before the first token. */
bool choice_lacks_scores(const struct choice *choice);
/* Those of a message, of the prompt's token first and n - 1 behind it, that the door does not know yet. BUG: the worker left out some,
 * or they are not as asked for; and what the door says. scratch [REPLY_TOKENS_MAX]. */
MUST_CHECK enum status choice_scores(struct choice *choice, uint32_t first,
                                     Kvferry__V1__TokenLogprobs *const *entries, size_t n,
                                     struct token_logprobs *scratch);
