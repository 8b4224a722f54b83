/*
 * gen_worker_engine - the engine of a generation worker's process, and what it speaks to: the receiver of KV blocks, the context
 * workers, the service.
 *
 * Thread: main's; the engine calls its ops on its own thread.
 */
#pragma once

#include "gen_worker/gen_worker_state.h"

/* Once, of a worker that is loaded. error names what cannot be. What was made before a failure is in gen, too. */
MUST_CHECK enum status gen_worker_create_engine(struct gen_worker *gen, struct error *error);
