/*
 * fd_wait - waits for a descriptor, until a time or until stop_fd is readable.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/status.h"

#include <stdint.h>

/* events: as for poll; fd -1: waits only for the time. CANCELLED: stop_fd is readable, which has
 * precedence; TIMED_OUT: until_ns (of clock_now_ns) has passed; IO_FAILED. */
MUST_CHECK enum status fd_wait(int fd, short events, int stop_fd, uint64_t until_ns);
