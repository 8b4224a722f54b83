/*
 * process_stats - what the kernel says about this process, for process_* metrics.
 *
 * Thread: any.
 */
#pragma once

#include "base/status.h"

#include <stdint.h>

struct process_stats {
    double cpu_seconds;   /* user and system, all threads */
    double start_seconds; /* since the epoch */
    uint64_t resident_bytes, virtual_bytes;
    uint64_t open_fds, fds_max;
    uint64_t n_threads;
};

/* Resident memory that is no file's: what nobody else has, and what only swap can take. IO_FAILED as below. */
MUST_CHECK enum status process_own_bytes(uint64_t *bytes_out);
/* IO_FAILED: /proc is not there or not as expected. */
MUST_CHECK enum status process_stats_read(struct process_stats *stats_out);
