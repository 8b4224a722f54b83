#include "kvtransfer/drivers/sim/sim_messages.h"

#include <assert.h>
#include <stdlib.h>

#define ROOM_FIRST 64u

static bool is_before(const struct sim_message *a, const struct sim_message *b)
{
    return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->sequence < b->sequence;
}

static void swap(struct sim_message *a, struct sim_message *b)
{
    struct sim_message copy = *a;
    *a = *b;
    *b = copy;
}

bool sim_messages_push(struct sim_messages *messages, const struct sim_message *message)
{
    if (messages->n == messages->n_max) {
        uint32_t n_max = messages->n_max ? 2 * messages->n_max : ROOM_FIRST;
        struct sim_message *heap = realloc(messages->heap, n_max * sizeof *heap);
        if (!heap)
            return false;
        messages->heap = heap;
        messages->n_max = n_max;
    }
    struct sim_message *heap = messages->heap;
    uint32_t i = messages->n++;
    heap[i] = *message;
    for (; i > 0 && is_before(&heap[i], &heap[(i - 1) / 2]); i = (i - 1) / 2)
        swap(&heap[i], &heap[(i - 1) / 2]);
    return true;
}

struct sim_message sim_messages_pop(struct sim_messages *messages)
{
    assert(messages->n > 0);
    struct sim_message *heap = messages->heap;
    struct sim_message first = heap[0];
    heap[0] = heap[--messages->n];
    for (uint32_t i = 0;;) {
        uint32_t least = i, left = 2 * i + 1;
        for (uint32_t child = left; child <= left + 1 && child < messages->n; child++)
            if (is_before(&heap[child], &heap[least]))
                least = child;
        if (least == i)
            return first;
        swap(&heap[i], &heap[least]);
        i = least;
    }
}

void sim_messages_finish(struct sim_messages *messages)
{
    free(messages->heap);
    *messages = (struct sim_messages){0};
}
