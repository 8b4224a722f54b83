/*
 * pool_memory - that there is memory for a pool, before it is taken. The device then touches it (device_touch), before the
 * worker says that it is ready.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/memory_room.h"

#include <stdint.h>

#define POOL_MEMORY_REST_BYTES (32ull << 20) /* what must stay for the work itself to begin */

/* NO_MEMORY with a sentence: fewer than bytes and the rest are left. */
MUST_CHECK enum status pool_memory_check(const struct memory_room *room, uint64_t bytes,
                                         struct error *error);
