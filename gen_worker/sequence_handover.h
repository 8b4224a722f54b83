/*
 * sequence_handover - a sequence whose prompt a context worker computes: from the start of its hand-over to the commit or the
 * fall-back.
 *
 * Thread: the engine's.
 */
#pragma once

#include "gen_worker/sequence.h"

/* id: the new prefill's handle. */
void sequence_start_handover(struct sequence *sequence, const struct gen_home *home,
                             struct handover *handover, uint64_t id, uint64_t now_ns);

/* The functions below may end the sequence: look at its state afterwards. */

/* An event of its hand-over. */
void sequence_on_event(struct sequence *sequence, const struct gen_home *home,
                       const struct prefill_event *event, uint64_t now_ns);
/* Commits when all blocks have arrived. */
void sequence_try_commit(struct sequence *sequence, const struct gen_home *home, uint64_t now_ns);
/* The commit was granted: the fetched KV may be used. */
void sequence_committed(struct sequence *sequence, const struct gen_home *home, uint64_t now_ns);
/* The hand-over failed: the prompt is computed here, or the sequence ends. If its blocks may still be written, it pauses first
 * and later takes others. */
void sequence_fall_back(struct sequence *sequence, const struct gen_home *home, enum status status,
                        const char *sentence, uint64_t now_ns);
