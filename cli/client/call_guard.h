/*
 * call_guard - ends a client command that hangs in gRPC.
 *
 * Under a limit on memory or threads, gRPC waits without end for threads that it could not start, and main hears no
 * signal meanwhile. So a thread of the command starts before gRPC, and only waits:
 *
 *     a limit passes       prints a sentence, and the process ends with 1
 *     gRPC aborts          under a limit on memory: prints a sentence, and the process ends with 1
 *     a signal             main gets the first one while it waits in a call; any other ends the process, with 130 or 143
 *
 * Bounds: a limit counts from when it is set; the last limit that was set applies.
 * Global state: one guard in a process.
 * Thread: main; end runs on the guard's thread.
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define CALL_GUARD_GRACE_MS 10000 /* added to a deadline, and for gRPC to close */

struct call_guard_options {
    const char *command; /* for the printed sentence */
    bool takes_signals;  /* signals are blocked; else it ignores them */
    /* Cleans up before a signal, or a limit (0), ends the process; NULL: nothing to do. */
    void (*end)(void *arg, int signal_number);
    void *arg;
};

/* Starts without a limit. NO_THREAD with a sentence. */
MUST_CHECK enum status call_guard_begin(const struct call_guard_options *options,
                                        struct error *error);
/* The limit from now on is this time plus CALL_GUARD_GRACE_MS. */
void call_guard_limit(uint64_t limit_ms);
/* From now on main waits for this descriptor, too: it is readable after the first signal. */
int call_guard_enter_call(void);
/* Ends that. */
void call_guard_leave_call(void);
/* Ends the guard; returns the first signal, or 0. Fine if it was not started. */
int call_guard_end(void);
