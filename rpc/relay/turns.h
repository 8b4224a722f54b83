/*
 * turns - decides whose request may go to gRPC's core next. Clients with the most requests in the core wait, so that
 * a client does not queue behind hundreds of requests of another one.
 *
 * It counts the recent requests in the core without an answer, of each address and of all. Time is divided into
 * rounds of TURNS_ROUND_NS; the present and the last round count. A request without an answer for longer waits for
 * something else (a model, the client's window), and does not delay others.
 *
 * No I/O; time never goes back. Thread: the owner's (plain data).
 */
#pragma once

#include "base/clock.h"

#include <stdbool.h>
#include <stdint.h>

#define TURNS_ROUND_NS (25 * NS_PER_MS)

struct turn_count {
    uint64_t round;
    uint32_t n[2]; /* of that round and the one before, indexed by the round's last bit */
};

/* The counts of all connections of a relay. */
struct turns {
    struct turn_count unanswered;
    struct turn_count addresses; /* that sent a request in a round */
};

/* n whole requests (or frames with the same cost) of the address that owns `own` go to the core. */
void turns_ask(struct turns *turns, struct turn_count *own, uint32_t n, uint64_t now_ns);
/* An answer has begun; sets *asked_ns to 0. If it is 0 already, this is more of the same answer. */
void turns_answer(struct turns *turns, struct turn_count *own, uint64_t *asked_ns);

/* False: n_max requests are unanswered, and this address has at least an even share of them (at least one). */
bool turns_may_ask(const struct turns *turns, const struct turn_count *own, uint32_t n_max,
                   uint64_t now_ns);
/* When the next round begins, and older requests do not count any more. */
uint64_t turns_next_round_ns(uint64_t now_ns);
