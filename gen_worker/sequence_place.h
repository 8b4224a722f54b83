/*
 * sequence_place - where the prompt of a sequence is computed, and what its client is told about that.
 *
 * Thread: the engine's.
 */
#pragma once

#include "gen_worker/sequence_state.h"

bool sequence_wants_context(const struct sequence *sequence, const struct gen_home *home);
/* Sets place and reason of a prompt that is computed here. */
void sequence_say_why_local(struct sequence *sequence, const struct gen_home *home);
/* The same after a failed hand-over. A prompt that an earlier hand-over completed keeps its place. */
void sequence_say_why_failed(struct sequence *sequence, enum status status, const char *sentence,
                             uint64_t now_ns);
