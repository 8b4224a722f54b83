/*
 * call_guard - ends a client command that gRPC does not let end.
 *
 * gRPC waits for threads that it could not start (a limit on memory or threads), past every deadline, and whoever waits with
 * it hears no signal. So a thread of the command's own is there first, which does nothing else than wait:
 *
 *     a limit passes       a sentence, and the process ends with 1
 *     a signal             the first one while main waits in a call is for main; any other ends the process, with 130 or 143
 *
 * Bounds: a limit counts from when it is set; the last one that was set is the one that holds.
 * Global state: one guard a process.
 * Thread: main calls; end runs on the guard's own.
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define CALL_GUARD_GRACE_MS 10000 /* over a deadline, and for gRPC to close */

struct call_guard_options {
    const char *command; /* for the sentence */
    bool takes_signals;  /* that are blocked; else it leaves them alone */
    /* Tidies up before the process ends in a signal, or a limit (0); NULL: there is nothing. */
    void (*end)(void *arg, int signal_number);
    void *arg;
};

/* NO_THREAD with a sentence. Without a limit. */
MUST_CHECK enum status call_guard_begin(const struct call_guard_options *options,
                                        struct error *error);
/* What main does from now on may take so long, and CALL_GUARD_GRACE_MS. */
void call_guard_limit(uint64_t limit_ms);
/* From here main waits for this descriptor as well: readable when the first signal has come. */
int call_guard_enter_call(void);
/* To here. */
void call_guard_leave_call(void);
/* Which signal came first; 0: none. One that was not begun is fine. */
int call_guard_end(void);
