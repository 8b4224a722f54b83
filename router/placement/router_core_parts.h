/*
 * router_core_parts - the parts of router_core that are in files of their own: placing a request (router_core_place.c) and
 * requests that wait for room (router_core_wait.c).
 *
 * Thread: that of router_core.
 */
#pragma once

#include "router/placement/prompt_places.h"
#include "router/placement/route_table.h"
#include "router/placement/router_core_options.h"
#include "router/placement/waiting_room.h"
#include "router/placement/worker_table.h"

#include <assert.h>

/* A request waits 1 / PATIENCE of wait_limit_ns for a pair that it has not tried. */
#define PATIENCE 10u

struct router_core {
    struct router_core_options options;
    struct router_core_ops ops;
    struct worker_table workers;
    struct route_table routes;
    struct waiting_room room; /* its items are the routes' slots */
    uint64_t now_ns;          /* of the last step */
    uint32_t n_reserved;      /* of requests_max, for requests that will come */
    bool is_draining;
    bool has_newcomer; /* a new request looks for a place to wait just now */
    struct prompt_places places;
    struct router_core_stats stats;
};

static inline struct worker *core_worker_at(struct router_core *core, uint32_t worker)
{
    assert(worker < core->workers.n_slots);
    return &core->workers.workers[worker];
}

static inline uint32_t core_item_of(const struct router_core *core, const struct route *route)
{
    return route_table_slot(&core->routes, route);
}

/* ---- router_core_place.c ---- */

/* What keeps every request from being placed: NO_GENERATION_WORKER, NO_CONTEXT_WORKER; OK: nothing. */
enum status core_lacks(const struct router_core *core);
/* The same for this request. MODEL_NOT_FOUND: generation workers are ready, and none has its adapter. NO_CONTEXT_WORKER, too: none that
 * it needs has it. */
enum status core_lacks_for(const struct router_core *core, const struct route *route);
/* Whether the request waits for a context worker with room before a generation worker computes its long prompt: for a part of
 * the whole wait, and only while no request is refused for that. */
bool core_waits_for_context(const struct router_core *core, const struct route *route);
/* As worker_table_choose, with QUEUE_FULL instead of NO_CONTEXT_WORKER. */
enum status core_choose(struct router_core *core, struct route *route, struct pair *pair_out);
/* Starts the call of a request that is new or waits. */
void core_start(struct router_core *core, struct route *route, const struct pair *pair);
/* The request has no call under way that anybody waits for. */
void core_free_route(struct router_core *core, struct route *route);
/* Frees the route, then tells the stream. */
void core_finish(struct router_core *core, struct route *route, enum status status,
                 const char *sentence, const void *payload);

/* ---- router_core_wait.c ---- */

/* From now on the request has wait_limit_ns, unless it has a limit already. */
void core_limit_wait(struct router_core *core, struct route *route);
/* The request is in the room and has no call. */
void core_start_waiting(struct router_core *core, struct route *route);
/* Starts those whose turn it is, while there is room. A request that finds no room although there is some holds up no other
 * tenant; and no other request of its own tenant while it waits for a context worker or for a pair that it has not tried. */
void core_place_waiting(struct router_core *core);
/* With what is lacking, QUEUE_FULL, DRAINING or TIMED_OUT. */
void core_end_wait(struct router_core *core, struct route *route);
