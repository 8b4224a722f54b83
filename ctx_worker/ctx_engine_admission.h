/*
 * ctx_engine_admission - which prompts of a context engine start now: those that the schedule admits, each with all its blocks.
 *
 * Thread: the engine's.
 */
#pragma once

#include "ctx_worker/ctx_engine_state.h"

/* arg is a struct ctx_engine. */
struct engine_admission ctx_engine_admit(void *arg, uint64_t now_ns);
