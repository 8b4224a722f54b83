/*
 * gen_worker_engine - makes the engine of a generation worker's process, and connects it with the receiver of KV blocks, the
 * client of context workers and the service.
 *
 * Thread: main's; the engine calls its ops on its own thread.
 */
#pragma once

#include "gen_worker/gen_worker_state.h"

/* Once, after worker_load. Not OK: error says why; what was made before the failure is in gen. */
MUST_CHECK enum status gen_worker_create_engine(struct gen_worker *gen, struct error *error);
