/*
 * pool_memory - that a pool's memory is there, before the worker says that it is ready.
 *
 * The kernel gives pages when they are first written, and ends the process when it has none: without this, in
 * the middle of some request.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/memory_room.h"
#include "base/thread_pool.h"

#include <stddef.h>

#define POOL_MEMORY_REST_BYTES (32ull << 20) /* what must stay for the work itself to begin */

/* NO_MEMORY with a sentence: fewer than bytes and the rest are left. */
MUST_CHECK enum status pool_memory_check(const struct memory_room *room, uint64_t bytes,
                                         struct error *error);
/* Writes zero to every page of memory, which holds nothing yet. */
void pool_memory_touch(void *memory, size_t bytes, struct thread_pool *threads);
