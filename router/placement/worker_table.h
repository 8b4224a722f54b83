/*
 * worker_table - the workers of a router core, in slots, and the choice of the cheapest pair.
 *
 *     add -> known, not ready -> ready <-> not ready -> remove -> (calls under way end) -> slot free
 *
 * A removed worker is never chosen again. Its slot counts its calls, and is reused only when there are none.
 *
 * Only workers with room are chosen. The room is that of the last report, corrected by the calls that began and ended
 * here since it was requested; a worker that has refused a call without room since then has none. A context worker that
 * refused a generation worker with SHARE_FULL has no room for that one.
 *
 * The cost of a pair is the sum of the costs of both workers: prompt tokens not known to be cached there, plus load in
 * tokens, plus a large cost if the request has been there; with equal costs the least recently used pair wins. So the
 * cheapest context worker gives a bound, and a generation worker that cannot win with it is skipped: a choice visits
 * each worker once, and few pairs.
 *
 * Bounds: workers_max slots.
 * Thread: the router core's.
 */
#pragma once

#include "base/status.h"
#include "router/placement/route_request.h"
#include "router/placement/worker_report.h"

struct worker {
    bool is_known; /* false: it has left, or the slot was never used */
    enum worker_role role;
    char address[ROUTER_ADDRESS_MAX];
    bool is_ready; /* by the last report, and no call failed since */
    struct worker_report report;
    uint32_t n_calls;      /* our open calls */
    uint32_t n_there;      /* of these, in a place: on a context worker until the first token */
    uint32_t n_reported;   /* n_there when the last report was requested */
    uint32_t n_asked;      /* n_there when the open request for a report was sent */
    bool is_asked;         /* a request for a report is open */
    bool is_full;          /* it refused a call without room */
    bool has_refused;      /* since it was asked last */
    uint32_t blocks_taken; /* by what was placed since the report */
    uint32_t hit_tokens;   /* of the prompt that is being placed */
    uint64_t used;         /* number of the last placement here */
};

struct pair {
    uint32_t generation_worker;
    uint32_t context_worker; /* NOBODY: none */
};

/* Of a generation worker's share of a context worker. */
struct pair_share {
    bool is_full;     /* that refused it for that, */
    bool has_refused; /* since it was asked last */
};

struct worker_cost {
    uint64_t tokens;
    uint64_t used;
};

struct worker_table {
    uint32_t workers_max;
    uint32_t n_slots;       /* that were ever used */
    struct worker *workers; /* [workers_max] */
    /* [workers_max][workers_max]: generation worker, context worker */
    bool *misfits;
    struct pair_share *shares;
    uint64_t n_used;
    /* Scratch of a choice, [workers_max]. */
    uint32_t *contexts;
    struct worker_cost *costs;
};

/* NO_MEMORY; what is half-made can be finished. */
MUST_CHECK enum status worker_table_init(struct worker_table *table, uint32_t workers_max);
void worker_table_finish(struct worker_table *table);

/* As router_core_add_worker. */
MUST_CHECK enum status worker_table_add(struct worker_table *table, enum worker_role role,
                                        const char *address, uint32_t *worker_out);
void worker_table_remove(struct worker_table *table, uint32_t worker);
/* Of workers that are known. */
void worker_table_set_fit(struct worker_table *table, uint32_t generation_worker,
                          uint32_t context_worker, bool fits);
uint32_t worker_table_n_ready(const struct worker_table *table, enum worker_role role);
/* Of these, with that adapter; 0: any. */
uint32_t worker_table_n_with_adapter(const struct worker_table *table, enum worker_role role,
                                     uint64_t adapter);
/* The number of compatible pairs of ready workers, counted up to n_max. */
uint32_t worker_table_n_pairs(const struct worker_table *table, uint32_t n_max);

/* Of a worker that is known. */
void worker_table_ask(struct worker_table *table, uint32_t worker);
void worker_table_report(struct worker_table *table, uint32_t worker,
                         const struct worker_report *report);
/* It refused a call without room: no request is placed on it until a report that is requested later. */
void worker_table_refused(struct worker_table *table, uint32_t worker);
/* The same for the pair's context worker, but only for that generation worker. */
void worker_table_share_refused(struct worker_table *table, const struct pair *pair);
/* The number of ready workers of the role with room. */
uint32_t worker_table_n_with_room(const struct worker_table *table, enum worker_role role);
/* Whether one of these generation workers has that adapter; 0: any. */
bool worker_table_has_room_with(const struct worker_table *table, uint64_t adapter);
/* Whether a ready generation worker with room has a compatible context worker with room for it. */
bool worker_table_has_open_pair(const struct worker_table *table);
/* Whether a generation worker has compatible context workers, but none of them has room for it. */
bool worker_table_contexts_are_full(const struct worker_table *table, uint32_t generation_worker);

struct worker_question {
    uint32_t n_tokens; /* of the prompt; which workers have how many of them is in hit_tokens */
    uint32_t n_blocks; /* that the request takes, */
    uint32_t n_prompt_blocks; /* and of these its prompt */
    bool may_be_alone;        /* a generation worker without a context worker will do, */
    bool waits_for_context;   /* but not yet while some, not tried, are only full: a long prompt */
    uint64_t adapter;         /* that both workers must have; 0: none */
    uint32_t beside;          /* a generation worker to take alone, if it has room; NOBODY: none */
    const struct pair *tried;
    uint32_t n_tried;
};

/* The cheapest pair that was not tried. A generation worker alone is chosen only if no pair has room (and none should
 * be waited for), and a worker without blocks for the request only if no other has them. QUEUE_FULL: all pairs that
 * were not tried are full. NO_CONTEXT_WORKER: the same, except for a generation worker that should wait. NOT_FOUND: all
 * were tried. */
MUST_CHECK enum status worker_table_choose(const struct worker_table *table,
                                           const struct worker_question *question,
                                           struct pair *pair_out);

/* A call begins; uncount when it has ended. */
void worker_table_count(struct worker_table *table, const struct pair *pair, uint32_t n_blocks);
/* Its first token came: it takes no place on its context worker any more. */
void worker_table_leave_context(struct worker_table *table, const struct pair *pair);
void worker_table_uncount(struct worker_table *table, const struct pair *pair,
                          bool has_left_context);
