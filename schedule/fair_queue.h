/*
 * fair_queue - the waiting items of each tenant, and which tenant is next.
 *
 * Each tenant has a virtual time: the tokens it was served, divided by its weight. The tenant with the smallest
 * time is next (start-time fair queuing). The prompt tokens that its admitted requests still need count as
 * served already (promised), so that a burst of admissions is fair before anything is computed. A tenant that
 * returns after it had nothing waiting is moved up to the clock, the time of the last turn: being idle gives no
 * credit.
 *
 *     tenant   time [ served ..... ]   + promised [ ... ]   = key; the smallest is next
 *     waiting  by rank: head -> next -> ... -> tail
 *
 * The waiting items of a tenant are ordered by rank, then by arrival (seq).
 *
 * Bounds: items_max items (an item is a number 0 .. items_max - 1), and as many tenants; a tenant without items
 * is remembered until its entry is needed for another.
 *
 * Thread: one.
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define FAIR_NONE UINT32_MAX
/* The virtual time of a token at weight 1; divided by weights up to 1000 its error is less than a
 * thousandth. */
#define FAIR_TIME_UNIT 1000000u

struct fair_tenant {
    uint64_t id;
    uint32_t n_items;    /* items of the tenant, waiting or not */
    uint32_t n_waiting;  /* of these, the waiting ones */
    uint32_t unit;       /* virtual time of one token */
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
void fair_queue_finish(struct fair_queue *queue); /* all zeros is fine */

/* Adds a waiting item of the tenant. weight: 1 .. 1000. */
void fair_queue_join(struct fair_queue *queue, uint32_t item, uint64_t tenant_id, uint32_t weight,
                     int64_t rank);
void fair_queue_leave(struct fair_queue *queue, uint32_t item, bool is_waiting);
/* NULL: unknown tenant. */
const struct fair_tenant *fair_queue_find(const struct fair_queue *queue, uint64_t tenant_id);

/* start: the item stops waiting, and its tenant had a turn. return: it waits again. */
void fair_queue_start(struct fair_queue *queue, uint32_t item);
void fair_queue_return(struct fair_queue *queue, uint32_t item);

/* The item's tenant was served so many tokens; so many more, or fewer, are promised to it. */
void fair_queue_charge(struct fair_queue *queue, uint32_t item, uint32_t n_tokens);
void fair_queue_promise(struct fair_queue *queue, uint32_t item, int64_t n_tokens);

/* Whether a is before b, of any tenants: by rank, then by seq. */
bool fair_queue_is_before(const struct fair_queue *queue, uint32_t a, uint32_t b);
struct fair_tenant *fair_queue_tenant_of(const struct fair_queue *queue, uint32_t item);

/* The time with the promised tokens. */
uint64_t fair_queue_key(const struct fair_tenant *tenant);
