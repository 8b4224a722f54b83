/*
 * memory_room - how much more memory this process can take before the kernel's out-of-memory killer
 * acts.
 *
 *     /proc/meminfo            MemAvailable: of the machine
 *     cgroup.h                 the limits of this cgroup and of those above: what is left of each
 *
 * Page cache that the kernel can reclaim counts as available in both.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/status.h"

#include <stdint.h>

struct memory_room {
    uint64_t available_bytes; /* the minimum of all of them */
    uint64_t limit_bytes;     /* the lowest limit of a cgroup; 0: no limit */
};

/* root: "", or a folder that contains proc and sys. IO_FAILED: MemAvailable cannot be read. */
MUST_CHECK enum status memory_room_read(const char *root, struct memory_room *room_out);
