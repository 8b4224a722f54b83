/*
 * fair_queue - what waits, by tenant, and whose turn it is.
 *
 * Each tenant has a virtual time: the tokens it was served, over its weight. The tenant that is least far comes
 * next (start-time fair queuing); what its admitted requests still have to be served of their prompts counts
 * as if it were done (promised), so that a burst of admissions is fair before anything is computed. Who comes
 * back after it had nothing waiting is moved up to the clock, the time of the last turn: idling saves nothing.
 *
 *     tenant   time [ served ..... ]   + promised [ ... ]   = key; the smallest has its turn
 *     waiting  by rank: head -> next -> ... -> tail
 *
 * Inside a tenant the waiting stand by rank, then by the order of their arrival (seq).
 *
 * Bounds: items_max items (an item is a number 0 .. items_max - 1), and so many tenants; a tenant without
 * items is remembered until its place is needed for another.
 *
 * Thread: one.
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define FAIR_NONE UINT32_MAX
/* Virtual time of a token at weight 1; divided by weights up to 1000 it is off by less than a thousandth. */
#define FAIR_TIME_UNIT 1000000u

struct fair_tenant {
    uint64_t id;
    uint32_t n_items;    /* that belong to it, waiting or not */
    uint32_t n_waiting;  /* of these */
    uint32_t unit;       /* of virtual time for a token */
    uint32_t head, tail; /* waiting items; FAIR_NONE: none */
    uint64_t time;       /* served */
    uint64_t promised;   /* tokens */
};

struct fair_item {
    uint32_t tenant; /* index */
    uint32_t previous, next;
    int64_t rank;
    uint64_t seq;
};

struct fair_queue {
    uint32_t items_max, n_tenants, n_waiting;
    uint64_t clock, next_seq;
    struct fair_item *items;     /* [items_max] */
    struct fair_tenant *tenants; /* [items_max] */
};

MUST_CHECK enum status fair_queue_init(struct fair_queue *queue, uint32_t items_max);
void fair_queue_finish(struct fair_queue *queue); /* a zeroed one is fine */

/* The item is the tenant's from now on, and waits. weight: 1 .. 1000. */
void fair_queue_join(struct fair_queue *queue, uint32_t item, uint64_t tenant_id, uint32_t weight,
                     int64_t rank);
void fair_queue_leave(struct fair_queue *queue, uint32_t item, bool is_waiting);
/* NULL: unknown. */
const struct fair_tenant *fair_queue_find(const struct fair_queue *queue, uint64_t tenant_id);

/* It waits no longer: its tenant had a turn. It waits again. */
void fair_queue_start(struct fair_queue *queue, uint32_t item);
void fair_queue_return(struct fair_queue *queue, uint32_t item);

/* Its tenant was served so many tokens; so many more, or fewer, are promised to it. */
void fair_queue_charge(struct fair_queue *queue, uint32_t item, uint32_t n_tokens);
void fair_queue_promise(struct fair_queue *queue, uint32_t item, int64_t n_tokens);

/* Whether a stands before b, whosoever they are: by rank, then by seq. */
bool fair_queue_is_before(const struct fair_queue *queue, uint32_t a, uint32_t b);
struct fair_tenant *fair_queue_tenant_of(const struct fair_queue *queue, uint32_t item);

/* Time with what is promised. */
uint64_t fair_queue_key(const struct fair_tenant *tenant);
