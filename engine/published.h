/*
 * published - a plain struct that one thread writes and other threads read as a whole: the figures of an engine.
 *
 * Thread: put on one, get from any. Both wait for a copy at most.
 */
#pragma once

#include "base/status.h"

#include <pthread.h>
#include <stddef.h>

struct published {
    size_t bytes;
    void *copy; /* [bytes]; NULL: not made */
    pthread_mutex_t lock;
};

/* Zeros until the first put. NO_MEMORY. */
MUST_CHECK enum status published_init(struct published *published, size_t bytes);
void published_finish(struct published *published); /* a zeroed one is fine */

/* bytes: of the struct, as for init. */
void published_put(struct published *published, const void *value, size_t bytes);
void published_get(struct published *published, void *value_out, size_t bytes);
