/*
 * step_thread - an engine's step in which virtual time passes: it runs on a thread of its own that stops at its pauses, and never
 * beside the one that lets it go on.
 *
 * A thread out of reach is of no use to a simulation: it aborts.
 *
 * Thread: pause on its own, the others on one.
 */
#pragma once

#include <stdbool.h>

struct step_thread;

/* Each step is run(arg). */
struct step_thread *step_thread_create(void (*run)(void *arg), void *arg);
/* No step is under way. NULL is fine. */
void step_thread_destroy(struct step_thread *thread);
/* Begins a step, or goes on behind its pause. True: it has ended. */
bool step_thread_go(struct step_thread *thread);
void step_thread_pause(struct step_thread *thread);
