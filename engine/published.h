/*
 * published - a plain struct that one thread writes and others read whole: an engine's figures.
 *
 * Thread: put on one, get from any; neither waits for longer than a copy takes.
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

/* bytes: sizeof the struct, as it was made for. */
void published_put(struct published *published, const void *value, size_t bytes);
void published_get(struct published *published, void *value_out, size_t bytes);
