/*
 * waiting_room - the waiting requests of a router core: which is next when a worker has room, and which ends when too
 * many wait.
 *
 *     join -> waits -> start -> placed -> serve ... -> leave
 *               ^                  |
 *               +---- give_back ---+   refused, or failed before its first token
 *
 * The rules are those of the workers (schedule/fair_queue.h): the tenant that was served least for its weight is next,
 * and its placed prompts count as served. Inside a tenant: priority with aging, then the order of arrival. When the
 * room is full, the tenant with most waiting requests for its weight gives up a place to a tenant that would have
 * fewer.
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
/* The sentence for a request that gives up its place. */
#define WAITING_ROOM_GAVE_WAY                                                                      \
    "as many requests wait as may, and this tenant has most of them for its weight"

struct waiting_room {
    struct fair_queue queue;
    struct fair_turns turns; /* of a round: waiting_room_first */
};

MUST_CHECK enum status waiting_room_init(struct waiting_room *room, uint32_t items_max);
void waiting_room_finish(struct waiting_room *room); /* a zeroed one is fine */

/* Adds a waiting item. */
void waiting_room_join(struct waiting_room *room, uint32_t item, const struct standing *standing,
                       uint64_t now_ns);
/* start: its turn; a prompt of so many tokens will be computed. give_back: that failed. */
void waiting_room_start(struct waiting_room *room, uint32_t item, uint32_t n_prompt);
void waiting_room_give_back(struct waiting_room *room, uint32_t item, uint32_t n_prompt);
/* The item's prompt was computed; tokens were generated for it. */
void waiting_room_prompt_served(struct waiting_room *room, uint32_t item, uint32_t n_prompt);
void waiting_room_served(struct waiting_room *room, uint32_t item, uint32_t n_tokens);
/* n_promised: the promised prompt tokens of an item that ends without a first token, which are forgotten; else 0. */
void waiting_room_leave(struct waiting_room *room, uint32_t item, bool is_waiting,
                        uint32_t n_promised);

/* A round of turns: the first item, and the next one after that was started, or was skipped with all others of
 * its tenant. WAITING_NONE: no more. */
uint32_t waiting_room_first(struct waiting_room *room);
uint32_t waiting_room_after_start(struct waiting_room *room);
uint32_t waiting_room_after_pass(struct waiting_room *room);
/* The first item must wait for a certain worker: returns the item after it, of the same tenant if it has more. */
uint32_t waiting_room_behind(struct waiting_room *room, uint32_t item);

/* The item that should give up its place to one of that standing: the last of the tenant with most items for its
 * weight. n_more: how many items of its tenant will arrive. WAITING_NONE: no tenant has more than its tenant would have
 * then. */
uint32_t waiting_room_who_gives_way(const struct waiting_room *room,
                                    const struct standing *standing, uint32_t n_more);
