/*
 * gen_engine_figures - the figures of a generation engine, counted after each step for other threads to read.
 *
 * Thread: the engine's.
 */
#pragma once

#include "gen_worker/gen_engine_state.h"

/* arg is a struct gen_engine. */
void gen_engine_publish(void *arg, uint64_t now_ns);
