/*
 * fd_wait - waits for a descriptor, until a time, and no longer than until somebody says stop.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/status.h"

#include <stdint.h>

/* events: of poll; fd -1: only for the time. CANCELLED: stop_fd is readable, which counts most; TIMED_OUT:
 * until_ns (of clock_now_ns) has come; IO_FAILED. */
MUST_CHECK enum status fd_wait(int fd, short events, int stop_fd, uint64_t until_ns);
