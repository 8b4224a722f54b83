/*
 * route_table - the requests of a router core, in slots, and the numbers of their attempts.
 *
 *     attempt   [count, never used again][slot: ROUTE_SLOT_BITS]
 *
 * Bounds: routes_max slots, attempts_max pairs that each remembers.
 *
 * Thread: the router core's.
 */
#pragma once

#include "router/placement/route_request.h"
#include "router/placement/worker_table.h"

#define ROUTE_SLOT_BITS 20u
#define ROUTES_MAX      (1u << ROUTE_SLOT_BITS)

struct route {
    void *stream; /* NULL: the slot is free */
    struct route_request request;
    uint64_t attempt; /* 0: the call has ended */
    struct pair pair;
    struct pair *tried; /* [attempts_max] */
    uint32_t n_tried;   /* since it last waited in vain */
    uint32_t n_attempts;
    uint32_t n_refused; /* without room, since an attempt failed for another reason */
    bool has_sent;
    bool is_waiting;
    bool wants_context; /* it lacked only a context worker with room, at the last look */
    uint64_t waits_since_ns;
    bool has_limit; /* the next member is set: it has waited, or was refused */
    uint64_t wait_until_ns;
};

struct route_table {
    uint32_t routes_max, attempts_max;
    struct route *routes; /* [routes_max] */
    struct pair *tried;   /* [routes_max][attempts_max] */
    uint64_t n_attempts;  /* ever */
};

/* NO_MEMORY; call finish after a failure, too. */
MUST_CHECK enum status route_table_init(struct route_table *table, uint32_t routes_max,
                                        uint32_t attempts_max);
void route_table_finish(struct route_table *table);

/* A free slot; there must be one (asserted). */
struct route *route_table_take(struct route_table *table);
void route_table_free(struct route *route);
uint32_t route_table_slot(const struct route_table *table, const struct route *route);

/* A number for the next attempt of that route. */
uint64_t route_table_number(struct route_table *table, const struct route *route);
/* The route of that attempt; NULL: it has ended. */
struct route *route_table_find(const struct route_table *table, uint64_t attempt);
struct route *route_table_find_stream(const struct route_table *table, const void *stream);

/* Forgets in all routes that the worker was tried: another may take its slot. */
void route_table_forget_worker(struct route_table *table, uint32_t worker);
