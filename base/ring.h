/*
 * ring - a bounded queue of fixed-size items between threads.
 *
 * Many producers, one consumer. Items are copied in and out. Nothing is allocated after creation;
 * a push to a full ring fails and changes nothing.
 *
 * Thread: ring_push and ring_wake from any; ring_pop, ring_peek and ring_wait from the one consumer.
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ring;

/* INVALID_ARGUMENT: a zero. NO_MEMORY. */
MUST_CHECK enum status ring_create(size_t item_bytes, uint32_t items_max, struct ring **ring_out);
/* Drops the queued items. NULL is fine. */
void ring_destroy(struct ring *ring);

/* QUEUE_FULL: nothing was added. Wakes the consumer. */
MUST_CHECK enum status ring_push(struct ring *ring, const void *item);
/* False: the ring is empty. */
bool ring_pop(struct ring *ring, void *item_out);
/* Copies the item at index at, counted from the oldest, without removing it. False: the ring has no
 * more than at items. */
bool ring_peek(struct ring *ring, uint32_t at, void *item_out);
/* Returns when the ring has an item, ring_wake was called since the last wait, or until_ns has
 * passed (CLOCK_MONOTONIC, DEADLINE_NONE: no limit). */
void ring_wait(struct ring *ring, uint64_t until_ns);
void ring_wake(struct ring *ring);
uint32_t ring_count(const struct ring *ring);
