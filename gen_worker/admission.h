/*
 * admission - carries out what the schedule decides: takes the blocks of paused requests, gives blocks to admitted ones, with
 * those of the prefix cache, and starts their prompts here or on a context worker.
 *
 *     gen_engine: take -> schedule (waiting) -> run -> sequence -> forget
 *
 * Tenant, weight and priority come from the router (base/standing.h). A paused request keeps its sequence, so sequences_max
 * sequences are enough for the admitted and the paused ones together.
 *
 * Thread: the engine's.
 */
#pragma once

#include "engine/engine_core.h"
#include "gen_worker/gen_home.h"

/* Enters the job into the schedule; the caller stays its owner. NO_BLOCKS: it never fits. QUEUE_FULL. */
MUST_CHECK enum status admission_take(const struct gen_home *home, struct job *job,
                                      uint64_t now_ns);
/* Removes a job that has no sequence. */
void admission_forget(const struct gen_home *home, const struct job *job);

/* Asks the schedule once. Admitted jobs leave the queue. */
struct engine_admission admission_run(const struct gen_home *home, uint64_t now_ns);
