/*
 * timeline - virtual time: what happens when. Events of the same moment happen in the order in which
 * they were added.
 *
 * A simulation out of memory is of no use: it aborts.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TIMELINE_NEVER UINT64_MAX

typedef void (*timeline_event)(void *arg);

struct timeline {
    uint64_t now_ns;
    uint64_t n_added;
    struct timeline_entry *heap; /* [heap_max] of which n, the first is due first */
    uint32_t n, heap_max;
};

void timeline_finish(struct timeline *timeline); /* a zeroed one is fine */
void timeline_at(struct timeline *timeline, uint64_t due_ns, timeline_event event, void *arg);
uint64_t timeline_next_ns(const struct timeline *timeline);
/* Lets everything happen that is due by now_ns. */
void timeline_run(struct timeline *timeline);
