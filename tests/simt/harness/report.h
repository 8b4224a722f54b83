/*
 * report - what the parts of the harness say of threads, and tell each other of them.
 */
#pragma once

#include "harness/threads.h"

namespace simt
{
/* To stderr, one line a warp: where each lane is. is_deadlock: nobody can go on; else some spin for ever. */
void report_threads(const struct cta *cta, bool is_deadlock);

/* The current thread waits until somebody makes it READY. */
void wait_for_others(const char *where, uint64_t detail);
/* A barrier that only this thread kept waiting may be complete now. */
void barrier_thread_ended(struct cta *cta);
/* With that number in the grid; not live: ends the process. */
struct cta *live_cta(unsigned number);
/* Whether p is on a stack of a thread that is live. */
bool is_on_stack(const void *p);
} // namespace simt
