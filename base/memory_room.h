/*
 * memory_room - how much more memory processes here may take, before the kernel ends one of them.
 *
 *     /proc/meminfo            MemAvailable: of the machine
 *     cgroup.h                 the limit of this group, and of those above: what is left below each
 *
 * Page cache that would be given back counts as available on both sides.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/status.h"

#include <stdint.h>

struct memory_room {
    uint64_t available_bytes; /* the least of all of them */
    uint64_t limit_bytes;     /* the lowest limit of a cgroup; 0: there is none */
};

/* root: "", or a folder in whose proc and sys they are. IO_FAILED: there is no MemAvailable. */
MUST_CHECK enum status memory_room_read(const char *root, struct memory_room *room_out);
