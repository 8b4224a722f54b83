/*
 * plan - everything that a seed decides before a run: the cluster, the network, the requests and the
 * faults.
 *
 * Three kinds of run: CALM (nothing goes wrong, everything has room: every request must succeed and
 * every byte is accounted for), TIGHT (small pools, short queues, deadlines, cancels, no faults) and
 * ROUGH (all of it, and faults). And two by themselves. CHURN: many workers that leave, die and come again under
 * the same addresses. PAUSES: long generations in pools that hold a few of them, of which some must be paused;
 * every second one ROUGH besides. SLOW: nothing goes wrong but that machines compute so slowly that a chunk as long as it may be
 * takes longer than a hand-over's limit, that the first step of a life does, whatever is in it, and in some seeds each; and any
 * longer than a commit may wait. CROWD: one worker of many that has hardly any room, and more requests at one time than
 * it could take: every one must succeed, and none be computed where it is decoded. AGAIN: one request of two is cancelled on
 * its way, and at the same moment the other comes under its name: that must succeed as if nobody had been there. Of every three
 * seeds two have tenants of their own weights, one of these priorities, too.
 */
#pragma once

#include "kvtransfer/drivers/sim/sim_transport.h"
#include "schedule/schedule.h"
#include "tests/sim/oracle.h"

#define PLAN_WORKERS_MAX  3u /* of a role; of both in churn: */
#define PLAN_CHURN_MAX    200u
#define PLAN_REQUESTS_MAX 512u
#define PLAN_FAULTS_MAX   256u

enum plan_kind {
    PLAN_CALM,
    PLAN_TIGHT,
    PLAN_ROUGH,
    PLAN_CHURN,
    PLAN_PAUSES,
    PLAN_SLOW,
    PLAN_CROWD,
    PLAN_AGAIN
};

struct plan_request {
    uint32_t name; /* the client's; others may have had it */
    uint64_t arrives_ns;
    uint64_t deadline_ns; /* UINT64_MAX: none */
    uint64_t cancel_ns;   /* UINT64_MAX: never */
    struct oracle_question question;
    uint32_t max_tokens;
    bool ignore_eos;
    uint32_t stop_at; /* the token of the answer at this index is a stop id; UINT32_MAX: none */
    bool has_salt;
    struct standing standing;
    uint32_t slow_after; /* tokens after which the reader is too slow; UINT32_MAX: never */
};

enum plan_fault_kind {
    FAULT_KILL,   /* a worker, until it is restarted at for_ns later; 0: for ever */
    FAULT_FREEZE, /* a worker, for for_ns */
    FAULT_CUT,    /* the link between a context and a generation worker, for for_ns */
    FAULT_CORRUPT,
    FAULT_LOSS,
    FAULT_DRAIN, /* a worker; restarted for_ns later */
    /* In churn only: */
    FAULT_LEAVE, /* the router's list, as it drains; restarted and listed again for_ns later */
    FAULT_CRASH, /* the same, killed at once; 0: for ever */
    FAULT_KINDS
};

struct plan_fault {
    enum plan_fault_kind kind;
    uint64_t at_ns, for_ns;
    uint32_t node;  /* of the cluster: see cluster.h */
    uint32_t other; /* of CUT */
};

struct plan {
    uint64_t seed;
    enum plan_kind kind;
    uint32_t model;
    bool has_sinks; /* the model is ORACLE_SINKS_MODEL */
    enum cache_dtype dtype;
    uint32_t n_ctx, n_gen;
    uint32_t block_tokens, chunk_tokens, batch_tokens;
    uint32_t ctx_blocks, gen_blocks;
    uint32_t slots_max, queue_max, prefills_max, caller_share;
    uint32_t small_node;         /* has one slot and one place to wait; 0: none */
    enum schedule_policy policy; /* of the generation workers */
    uint32_t headroom_blocks, priority_aging_ms;
    bool kv_digest, prefix_cache, local_prefill;
    uint32_t local_prefill_max_tokens;
    uint32_t attempts_max, wait_max, window_max;
    uint64_t queue_limit_ns, context_limit_ns, transfer_limit_ns, commit_limit_ns, quiet_limit_ns;
    uint64_t lease_limit_ns, wait_limit_ns;
    uint64_t context_limit_max_ns, step_target_ns; /* 0, but in SLOW */
    uint64_t step_ns, token_ns;                    /* what computing costs */
    /* In SLOW, of a context worker's step besides, and others go on meanwhile: a layer, and one of the first step of a life. */
    uint64_t layer_ns, cold_layer_ns;
    uint64_t rpc_min_ns, rpc_max_ns;
    struct sim_options network;
    uint32_t n_requests, n_faults;
    struct plan_request requests[PLAN_REQUESTS_MAX];
    struct plan_fault faults[PLAN_FAULTS_MAX];
};

void plan_draw(struct plan *plan, uint64_t seed);
void plan_draw_churn(struct plan *plan, uint64_t seed);
void plan_draw_tiers(struct plan *plan, uint64_t seed);
void plan_draw_pauses(struct plan *plan, uint64_t seed);
void plan_draw_slow(struct plan *plan, uint64_t seed);
void plan_draw_crowd(struct plan *plan, uint64_t seed);
void plan_draw_again(struct plan *plan, uint64_t seed);
void plan_draw_sinks(struct plan *plan, uint64_t seed);

/* The longest prompt; with an encoder the longest line, with its reply. */
static inline uint32_t plan_context_tokens(const struct plan *plan)
{
    const struct encoder_line line = oracle_line(plan->model, plan->block_tokens);
    if (line.text_max > 0)
        return encoder_line_context(&line);
    return plan->has_sinks ? ORACLE_SINKS_CONTEXT : ORACLE_CONTEXT_TOKENS;
}

/* Everything must succeed that its client does not cancel. */
static inline bool plan_is_calm(const struct plan *plan)
{
    return plan->kind == PLAN_CALM || plan->kind == PLAN_PAUSES || plan->kind == PLAN_SLOW ||
           plan->kind == PLAN_CROWD || plan->kind == PLAN_AGAIN;
}
