/*
 * sequence_progress - how much of the prompt of a sequence has its KV.
 *
 * Thread: the engine's.
 */
#pragma once

#include "gen_worker/sequence_state.h"

/* How far the prompt is, to a client who wants to know: nothing behind the first token. */
void sequence_tell_progress(const struct sequence *sequence, const struct gen_home *home);
/* Into the figures of prompts that are under way, if its own is. */
void sequence_count_prefill(const struct sequence *sequence, struct gen_engine_stats *stats);
