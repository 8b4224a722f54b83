/*
 * pretend_engine - a worker without a model: counts blocks, does what a schedule says, and asserts at every
 * step that it may be done.
 *
 * Its own books (tokens, KV, blocks of each request) are kept apart from the schedule's. Prefix groups: the
 * requests of a group begin with the same whole blocks, which are held once, by all of them together, and
 * are cached when nobody holds them, until the pool needs them.
 *
 * Asserted at each step: blocks add up; nobody is paused but by MAX_UTILIZATION, and then only for an older one;
 * what NO_EVICT promised fits; no tenant has more sequences than its share; a batch is within its tokens, has each request once, chunks before decodes,
 * whole blocks, nobody without blocks; when nobody is admitted, somebody is.
 */
#pragma once

#include "schedule/schedule.h"

#define PRETEND_TENANTS   8u
#define PRETEND_GROUPS    4u
#define PRETEND_NO_GROUP  UINT32_MAX
#define PRETEND_NOT_FETCH 0u

/* What arrives. */
struct pretend_arrival {
    uint32_t tenant; /* under PRETEND_TENANTS */
    uint32_t weight;
    int32_t priority;
    uint32_t prompt_tokens, max_new_tokens;
    uint32_t generates; /* tokens until it ends by itself, at most max_new_tokens */
    uint32_t group;     /* whose blocks it begins with, or PRETEND_NO_GROUP */
    uint32_t
        fetch_steps; /* its prompt comes from elsewhere and takes so long, or PRETEND_NOT_FETCH */
    bool fetch_fails;
    uint32_t lease_steps; /* that its blocks are kept after its end: somebody reads them */
    uint32_t runs_ahead;  /* tokens that are known behind each that is drawn here */
};

struct pretend_request {
    bool is_known, is_admitted, was_admitted;
    struct pretend_arrival arrival;
    uint64_t seq;
    int64_t rank;
    uint32_t n_tokens, n_kv, n_blocks; /* n_blocks: its own, without the group's */
    uint32_t n_best_kv;                /* most that were ever computed */
    uint32_t fetch_left;               /* steps; 0: does not fetch */
    uint32_t lease_left;               /* steps; 0: has not ended */
    bool holds_group;
};

struct pretend_group {
    uint32_t n_blocks, n_holders;
    bool is_computed; /* by somebody, and still in the pool */
};

/* Of the last step; ids in the order of the batch. */
struct pretend_outcome {
    uint32_t n_prompt_tokens, n_decodes;
    uint64_t n_past; /* KV that the batch's tokens look back at */
    uint32_t n_drew, n_ended, n_admitted, n_paused;
    schedule_id *drew, *ended; /* [2 * sequences_max] */
    schedule_id *admitted;     /* [sequences_max] */
};

struct pretend_engine {
    struct schedule_options options;
    struct schedule *schedule;
    struct pretend_request *requests; /* [sequences_max + waiting_max] by id */
    uint32_t requests_max;
    struct pretend_group groups[PRETEND_GROUPS];
    uint32_t n_free;   /* blocks; cached groups not among them */
    uint32_t n_stolen; /* blocks that something else has: leases, quarantine */
    uint64_t next_seq;
    uint64_t served[PRETEND_TENANTS]; /* tokens computed or fetched for the first time */
    uint64_t hash;                    /* of all decisions so far */
    uint64_t n_given_up;
    struct pretend_outcome outcome;
};

void pretend_init(struct pretend_engine *engine, const struct schedule_options *options);
void pretend_finish(struct pretend_engine *engine);

/* As schedule_add. */
enum status pretend_add(struct pretend_engine *engine, const struct pretend_arrival *arrival,
                        uint64_t now_ms, schedule_id *id_out);
void pretend_cancel(struct pretend_engine *engine, schedule_id id);
/* Of an admitted one: as if the pool had not had its blocks. */
void pretend_give_up(struct pretend_engine *engine, schedule_id id);
/* Takes up to n free blocks away, or gives so many of them back. */
uint32_t pretend_steal(struct pretend_engine *engine, uint32_t n);
void pretend_give_back(struct pretend_engine *engine, uint32_t n);

/* False: nothing could be done. */
bool pretend_step(struct pretend_engine *engine);
