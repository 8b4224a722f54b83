/*
 * ctx_engine_figures - the figures of a context engine, counted after each step for other threads to read.
 *
 * Thread: the engine's.
 */
#pragma once

#include "ctx_worker/ctx_engine_state.h"

/* arg is a struct ctx_engine. */
void ctx_engine_publish(void *arg, uint64_t now_ns);
