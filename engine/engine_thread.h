/*
 * engine_thread - the thread that runs a worker's engine: a step, then a sleep until the time that the step returned.
 *
 *     loop:  until = step(engine, now);  after_step(arg, nanoseconds);  wait(engine, until)
 *
 * The engines of both workers run in this loop. Between start and stop the engine belongs to this thread.
 *
 * Thread: start and stop on main; the others from any.
 */
#pragma once

#include "base/status.h"

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

struct engine_thread;

struct engine_thread_options {
    const char *name; /* of the thread, at most 15 bytes; copied */
    void *engine;
    uint64_t (*step)(void *engine, uint64_t now_ns);
    void (*wait)(void *engine, uint64_t until_ns);
    void (*wake)(void *engine);     /* from any thread */
    bool (*is_quiet)(void *engine); /* no request runs and no block is owned, so it may stop */
    void (*after_step)(void *arg, uint64_t step_ns);
    void *arg;
    cpu_set_t cpus; /* on which it runs; empty: any */
};

MUST_CHECK enum status engine_thread_start(const struct engine_thread_options *options,
                                           struct engine_thread **thread_out);
/* Runs until the engine is quiet, at most limit_ns, then ends the thread. True: it was quiet. NULL is fine. */
bool engine_thread_stop(struct engine_thread *thread, uint64_t limit_ns);
/* The time, for an engine's table of functions; arg is not used. */
uint64_t engine_thread_now_ns(void *arg);
/* How long the current step has been running; 0 between steps. */
uint64_t engine_thread_stuck_ns(const struct engine_thread *thread, uint64_t now_ns);
