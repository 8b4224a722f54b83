/*
 * waiting_room - the requests of a router core by tenant: whose turn it is when a worker has room, and who gives way when
 * too many wait.
 *
 *     join -> waits -> start -> placed -> serve ... -> leave
 *               ^                  |
 *               +---- give_back ---+   refused, or failed before its first token
 *
 * The rules are those of the workers (schedule/fair_queue.h): who was served least for its weight comes next, and what its
 * placed prompts still cost counts as if it were done. Inside a tenant priority that ages, then the order of arrival.
 * When the room is full the tenant that has most there for its weight has to give a place to who would have less.
 *
 * Bounds: items_max items, numbers 0 .. items_max - 1; nothing is allocated after init.
 *
 * Thread: the router core's.
 */
#pragma once

#include "base/standing.h"
#include "schedule/fair_queue.h"
#include "schedule/fair_turns.h"

#define WAITING_NONE FAIR_NONE
/* What who had to give its place is told. */
#define WAITING_ROOM_GAVE_WAY                                                                      \
    "as many requests wait as may, and this tenant has most of them for its weight"

struct waiting_room {
    struct fair_queue queue;
    struct fair_turns turns; /* of a round: waiting_room_first */
};

MUST_CHECK enum status waiting_room_init(struct waiting_room *room, uint32_t items_max);
void waiting_room_finish(struct waiting_room *room); /* a zeroed one is fine */

/* The item is known from now on, and waits. */
void waiting_room_join(struct waiting_room *room, uint32_t item, const struct standing *standing,
                       uint64_t now_ns);
/* Its turn: a prompt of so many tokens is about to be computed. And that came to nothing. */
void waiting_room_start(struct waiting_room *room, uint32_t item, uint32_t n_prompt);
void waiting_room_give_back(struct waiting_room *room, uint32_t item, uint32_t n_prompt);
/* Its prompt was computed. Tokens were generated for it. */
void waiting_room_prompt_served(struct waiting_room *room, uint32_t item, uint32_t n_prompt);
void waiting_room_served(struct waiting_room *room, uint32_t item, uint32_t n_tokens);
/* Placed without a first token when it ends: what was promised of its prompt is forgotten (n_promised; else 0). */
void waiting_room_leave(struct waiting_room *room, uint32_t item, bool is_waiting,
                        uint32_t n_promised);

/* A round of turns: the first, and the one after it has been started, or was passed over together with all of its
 * tenant's. WAITING_NONE: none is left. */
uint32_t waiting_room_first(struct waiting_room *room);
uint32_t waiting_room_after_start(struct waiting_room *room);
uint32_t waiting_room_after_pass(struct waiting_room *room);
/* The first has to wait for a worker of its own choice: who is behind it, of its tenant while there are any. */
uint32_t waiting_room_behind(struct waiting_room *room, uint32_t item);

/* Who should give its place to one of that standing: the last of the tenant that has most for its weight. n_more: so many
 * of its tenant's are to come. WAITING_NONE: nobody has more than its tenant has with them. */
uint32_t waiting_room_who_gives_way(const struct waiting_room *room,
                                    const struct standing *standing, uint32_t n_more);
