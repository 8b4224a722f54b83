/*
 * pool_memory - checks that there is memory for a pool before it is allocated. The device then touches it
 * (device_touch) before the worker is ready.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/memory_room.h"

#include <stdint.h>

#define POOL_MEMORY_REST_BYTES (32ull << 20) /* must stay free for the work itself */

/* NO_MEMORY with a sentence: less than bytes plus the rest is left. */
MUST_CHECK enum status pool_memory_check(const struct memory_room *room, uint64_t bytes,
                                         struct error *error);
