/*
 * admission - does what the schedule says of blocks: takes them back from whom it pauses, gives them to whom it
 * admits, with what the prefix cache has, and starts their prompts there or here.
 *
 *     gen_engine: take -> schedule (waiting) -> run -> sequence -> forget
 *
 * Tenant, weight and priority are the router's word (base/standing.h). Whom the schedule pauses keeps a place in
 * it, so that sequences_max sequences are enough for the admitted and the paused, whoever stands before them.
 *
 * Thread: the engine's.
 */
#pragma once

#include "engine/engine_core.h"
#include "gen_worker/gen_home.h"

/* The schedule knows the job from now on; the caller is its owner as before. NO_BLOCKS: it never fits.
 * QUEUE_FULL. */
MUST_CHECK enum status admission_take(const struct gen_home *home, struct job *job,
                                      uint64_t now_ns);
/* Of a job that is no sequence. */
void admission_forget(const struct gen_home *home, const struct job *job);

/* One question to the schedule. Whom it admits leaves the queue. */
struct engine_admission admission_run(const struct gen_home *home, uint64_t now_ns);
