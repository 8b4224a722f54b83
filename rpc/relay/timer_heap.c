#include "rpc/relay/timer_heap.h"

#include <assert.h>
#include <stdlib.h>

enum status timer_heap_init(struct timer_heap *heap, uint32_t n)
{
    *heap = (struct timer_heap){.n_room = n};
    heap->timers = calloc(n ? n : 1, sizeof *heap->timers);
    return heap->timers ? STATUS_OK : STATUS_NO_MEMORY;
}

void timer_heap_finish(struct timer_heap *heap)
{
    free(heap->timers);
    *heap = (struct timer_heap){0};
}

static void put(struct timer_heap *heap, uint32_t index, struct timer *timer)
{
    heap->timers[index] = timer;
    timer->place = index + 1;
}

static void rise(struct timer_heap *heap, uint32_t index, struct timer *timer)
{
    while (index > 0 && heap->timers[(index - 1) / 2]->due_ns > timer->due_ns) {
        put(heap, index, heap->timers[(index - 1) / 2]);
        index = (index - 1) / 2;
    }
    put(heap, index, timer);
}

static void sink(struct timer_heap *heap, uint32_t index, struct timer *timer)
{
    for (uint32_t child; (child = 2 * index + 1) < heap->n; index = child) {
        if (child + 1 < heap->n && heap->timers[child + 1]->due_ns < heap->timers[child]->due_ns)
            child++;
        if (heap->timers[child]->due_ns >= timer->due_ns)
            break;
        put(heap, index, heap->timers[child]);
    }
    put(heap, index, timer);
}

void timer_heap_set(struct timer_heap *heap, struct timer *timer, uint64_t due_ns)
{
    timer_heap_clear(heap, timer);
    assert(heap->n < heap->n_room);
    timer->due_ns = due_ns;
    rise(heap, heap->n++, timer);
}

void timer_heap_clear(struct timer_heap *heap, struct timer *timer)
{
    assert(timer->place == 0 ||
           (timer->place <= heap->n && heap->timers[timer->place - 1] == timer));
    if (timer->place == 0)
        return;
    uint32_t index = timer->place - 1;
    struct timer *last = heap->timers[--heap->n];
    timer->place = 0;
    if (last == timer)
        return;
    if (index > 0 && heap->timers[(index - 1) / 2]->due_ns > last->due_ns)
        rise(heap, index, last);
    else
        sink(heap, index, last);
}

struct timer *timer_heap_first(const struct timer_heap *heap)
{
    return heap->n > 0 ? heap->timers[0] : NULL;
}
