/*
 * fair_turns - a heap of the tenants that want something in a step, the smallest virtual time first.
 *
 * The caller adds each tenant once, then takes the first, serves it, and moves it back or drops it.
 *
 * Bounds: turns_max.
 * Thread: one.
 */
#pragma once

#include "base/status.h"

#include <stdint.h>

struct fair_turn {
    uint64_t key;    /* a virtual time: fair_queue.h */
    uint64_t seq;    /* of its first request: with equal keys the older one is first */
    uint32_t tenant; /* index */
};

struct fair_turns {
    uint32_t turns_max, n;
    struct fair_turn *turns; /* [turns_max] a heap: no child is before its parent */
};

MUST_CHECK enum status fair_turns_init(struct fair_turns *turns, uint32_t turns_max);
void fair_turns_finish(struct fair_turns *turns); /* all zeros is fine */

void fair_turns_clear(struct fair_turns *turns);
void fair_turns_add(struct fair_turns *turns, const struct fair_turn *turn);
const struct fair_turn *fair_turns_first(const struct fair_turns *turns); /* NULL: none; borrowed */
/* key is not smaller than before. */
void fair_turns_move_first(struct fair_turns *turns, uint64_t key, uint64_t seq);
void fair_turns_drop_first(struct fair_turns *turns);
