#include "schedule/fair_turns.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

enum status fair_turns_init(struct fair_turns *turns, uint32_t turns_max)
{
    turns->turns_max = turns_max;
    turns->n = 0;
    turns->turns = calloc(turns_max, sizeof *turns->turns);
    return turns->turns ? STATUS_OK : STATUS_NO_MEMORY;
}

void fair_turns_finish(struct fair_turns *turns)
{
    free(turns->turns);
    turns->turns = NULL;
    turns->n = 0;
}

static bool is_before(const struct fair_turn *a, const struct fair_turn *b)
{
    return a->key < b->key || (a->key == b->key && a->seq < b->seq);
}

static void sink_first(struct fair_turns *turns)
{
    struct fair_turn *heap = turns->turns;
    uint32_t at = 0;
    for (;;) {
        uint32_t least = at;
        for (uint32_t child = 2 * at + 1; child <= 2 * at + 2 && child < turns->n; child++)
            if (is_before(&heap[child], &heap[least]))
                least = child;
        if (least == at)
            return;
        struct fair_turn turn = heap[at];
        heap[at] = heap[least];
        heap[least] = turn;
        at = least;
    }
}

void fair_turns_clear(struct fair_turns *turns)
{
    turns->n = 0;
}

void fair_turns_add(struct fair_turns *turns, const struct fair_turn *turn)
{
    assert(turns->n < turns->turns_max);
    struct fair_turn *heap = turns->turns;
    uint32_t at = turns->n++;
    while (at > 0 && is_before(turn, &heap[(at - 1) / 2])) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = *turn;
}

const struct fair_turn *fair_turns_first(const struct fair_turns *turns)
{
    return turns->n > 0 ? &turns->turns[0] : NULL;
}

void fair_turns_move_first(struct fair_turns *turns, uint64_t key, uint64_t seq)
{
    assert(turns->n > 0 && key >= turns->turns[0].key);
    turns->turns[0].key = key;
    turns->turns[0].seq = seq;
    sink_first(turns);
}

void fair_turns_drop_first(struct fair_turns *turns)
{
    assert(turns->n > 0);
    turns->turns[0] = turns->turns[--turns->n];
    sink_first(turns);
}
