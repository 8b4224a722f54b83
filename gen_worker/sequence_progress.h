/*
 * sequence_progress - how much of the prompt of a sequence has its KV.
 *
 * Thread: the engine's.
 */
#pragma once

#include "gen_worker/sequence_state.h"

/* Sends the progress of the prompt to a client that wants it, until the first token. */
void sequence_tell_progress(const struct sequence *sequence, const struct gen_home *home);
/* Adds its prompt to the figures of prompts that are computed now, if it is one. */
void sequence_count_prefill(const struct sequence *sequence, struct gen_engine_stats *stats);
