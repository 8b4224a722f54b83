/*
 * worker_table - the workers that a router core knows, in slots, and which pair of them costs least.
 *
 *     add -> known, not ready -> ready <-> not ready -> remove -> (calls under way end) -> slot free
 *
 * A worker that was removed is never chosen again. Its slot keeps the count of the calls on it, and is
 * taken by another only when there is none.
 *
 * The cost of a pair is the sum of what it costs on each side: prompt tokens not known to be cached there
 * and load, in tokens; of equal costs the pair that was used least lately. So the cheapest context worker
 * bounds every pair, and a generation worker that cannot win with it is passed over: choosing looks at each
 * worker once, and at few pairs.
 *
 * Bounds: workers_max slots.
 * Thread: the router core's.
 */
#pragma once

#include "router/prefix_map.h"
#include "router/router_core.h"

#define NOBODY PREFIX_MAP_NOBODY

struct worker {
    bool is_known; /* false: it left, or the slot was never used */
    enum worker_role role;
    char address[ROUTER_ADDRESS_MAX];
    bool is_ready; /* as last reported, and no call broke since */
    struct worker_report report;
    uint32_t n_calls;      /* of ours, under way */
    uint32_t blocks_taken; /* by what was placed since the report */
    uint32_t hit_tokens;   /* of the prompt that is being placed */
    uint64_t used;         /* number of the last placement here */
};

struct pair {
    uint32_t generation_worker;
    uint32_t context_worker; /* NOBODY: none */
};

struct worker_cost {
    uint64_t tokens;
    uint64_t used;
};

struct worker_table {
    uint32_t workers_max;
    uint32_t n_slots;       /* that were ever used */
    struct worker *workers; /* [workers_max] */
    bool *misfits;          /* [workers_max][workers_max]: generation worker, context worker */
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
/* Pairs of ready workers that fit; counted no further than n_max. */
uint32_t worker_table_n_pairs(const struct worker_table *table, uint32_t n_max);

struct worker_question {
    uint32_t n_tokens; /* of the prompt; which workers have how many of them is in hit_tokens */
    uint32_t n_blocks; /* that the request takes */
    bool may_be_alone; /* a generation worker without a context worker will do */
    const struct pair *tried;
    uint32_t n_tried;
};

/* The cheapest pair not yet tried; a generation worker alone only when there is no pair, and one without
 * room for the request only when none has it. False: none is left. */
bool worker_table_choose(const struct worker_table *table, const struct worker_question *question,
                         struct pair *pair_out);

/* A call begins; uncount when it has ended. */
void worker_table_count(struct worker_table *table, const struct pair *pair, uint32_t n_blocks);
void worker_table_uncount(struct worker_table *table, const struct pair *pair);
