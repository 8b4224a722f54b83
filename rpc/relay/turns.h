/*
 * turns - whose request may go to the core next: who has the most there waits, so that nobody's calls stand behind
 * hundreds of another's.
 *
 * Counted is what the core was given of late and has not answered, of an address and of all. Time is cut into rounds
 * of TURNS_ROUND_NS, of which this one and the last count: what has no answer for longer waits for something else
 * than its turn (a model, the client's window), and stands in nobody's way.
 *
 * No I/O; time never runs back. Thread: the owner's (plain data).
 */
#pragma once

#include "base/clock.h"

#include <stdbool.h>
#include <stdint.h>

#define TURNS_ROUND_NS (25 * NS_PER_MS)

struct turn_count {
    uint64_t round;
    uint32_t n[2]; /* of that round and the one before, by their last bits */
};

/* Of all connections of a relay. */
struct turns {
    struct turn_count unanswered;
    struct turn_count addresses; /* that gave any in a round */
};

/* n whole requests go to the core, or what costs as much, of the address that owns `own`. */
void turns_ask(struct turns *turns, struct turn_count *own, uint32_t n, uint64_t now_ns);
/* The first of the answer to one of them has come; asked_ns 0: more of it, and is made so. */
void turns_answer(struct turns *turns, struct turn_count *own, uint64_t *asked_ns);

/* False: n_max are unanswered, and of them as many are its own as an even share of all addresses is, at least one. */
bool turns_may_ask(const struct turns *turns, const struct turn_count *own, uint32_t n_max,
                   uint64_t now_ns);
/* When some may be forgotten. */
uint64_t turns_next_round_ns(uint64_t now_ns);
