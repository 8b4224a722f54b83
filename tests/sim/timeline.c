#include "tests/sim/timeline.h"

#include <stdlib.h>

struct timeline_entry {
    uint64_t due_ns, order;
    timeline_event event;
    void *arg;
};

void timeline_finish(struct timeline *timeline)
{
    free(timeline->heap);
    *timeline = (struct timeline){0};
}

static bool is_before(const struct timeline_entry *a, const struct timeline_entry *b)
{
    return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->order < b->order;
}

static void swap(struct timeline_entry *a, struct timeline_entry *b)
{
    struct timeline_entry copy = *a;
    *a = *b;
    *b = copy;
}

void timeline_at(struct timeline *timeline, uint64_t due_ns, timeline_event event, void *arg)
{
    if (timeline->n == timeline->heap_max) {
        timeline->heap_max = timeline->heap_max ? 2 * timeline->heap_max : 256;
        timeline->heap = realloc(timeline->heap, timeline->heap_max * sizeof *timeline->heap);
        if (!timeline->heap)
            abort();
    }
    if (due_ns < timeline->now_ns)
        due_ns = timeline->now_ns;
    uint32_t i = timeline->n++;
    timeline->heap[i] = (struct timeline_entry){due_ns, timeline->n_added++, event, arg};
    for (; i > 0 && is_before(&timeline->heap[i], &timeline->heap[(i - 1) / 2]); i = (i - 1) / 2)
        swap(&timeline->heap[i], &timeline->heap[(i - 1) / 2]);
}

uint64_t timeline_next_ns(const struct timeline *timeline)
{
    return timeline->n > 0 ? timeline->heap[0].due_ns : TIMELINE_NEVER;
}

static struct timeline_entry pop(struct timeline *timeline)
{
    struct timeline_entry first = timeline->heap[0];
    timeline->heap[0] = timeline->heap[--timeline->n];
    for (uint32_t i = 0;;) {
        uint32_t least = i;
        for (uint32_t child = 2 * i + 1; child <= 2 * i + 2 && child < timeline->n; child++)
            if (is_before(&timeline->heap[child], &timeline->heap[least]))
                least = child;
        if (least == i)
            return first;
        swap(&timeline->heap[i], &timeline->heap[least]);
        i = least;
    }
}

void timeline_run(struct timeline *timeline)
{
    while (timeline_next_ns(timeline) <= timeline->now_ns) {
        struct timeline_entry entry = pop(timeline);
        entry.event(entry.arg);
    }
}
