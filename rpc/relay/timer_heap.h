/*
 * timer_heap - finds the earliest of many timers: a binary heap of timers that live in their
 * owners.
 *
 * Bound: what timer_heap_reserve was asked for. Thread: the owner's.
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct timer {
    uint64_t due_ns;
    uint32_t place; /* its index in the heap, from 1; 0: not set */
    void *owner;
};

struct timer_heap {
    struct timer **timers; /* [n], each no earlier than its parent */
    uint32_t n;
    uint32_t n_room;
};

/* Makes room for n timers in all. NO_MEMORY. */
MUST_CHECK enum status timer_heap_init(struct timer_heap *heap, uint32_t n);
void timer_heap_finish(struct timer_heap *heap);

/* Sets or changes a timer. Asserts that there is room. */
void timer_heap_set(struct timer_heap *heap, struct timer *timer, uint64_t due_ns);
void timer_heap_clear(struct timer_heap *heap, struct timer *timer); /* fine if not set */
struct timer *timer_heap_first(const struct timer_heap *heap);       /* NULL: none is set */
