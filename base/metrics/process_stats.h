/*
 * process_stats - reads from the kernel what the process_* metrics show.
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

/* Resident memory that is not backed by a file: private to this process, and only swap can free it. IO_FAILED
 * as below. */
MUST_CHECK enum status process_own_bytes(uint64_t *bytes_out);
/* IO_FAILED: /proc is missing or has an unexpected format. */
MUST_CHECK enum status process_stats_read(struct process_stats *stats_out);
