/*
 * cluster - one whole run: a router, context and generation workers, clients, faults, in virtual time.
 *
 *     node 0                 the router (and all clients)
 *     node 1 .. n_ctx        context workers, address "w1" ...
 *     node n_ctx + 1 ..      generation workers, address "w..."
 *
 * Workers run the products' engines, senders, receivers, pools, model and sampling; simulated are
 * time, gRPC (wire.h) and the network under the KV transport (sim_transport.h). Computing costs
 * virtual time: a node that stepped is busy for a while, and what reaches its engine waits. Where layers take time
 * (plan.h) a step stops behind each, and the others go on.
 *
 * A worker's life begins with node_start and ends with node_kill; its place and address stay, its
 * incarnation is new each time. Whether the router knows of it is another matter: it leaves the router's list
 * and joins it again, alive or dead.
 */
#pragma once

#include "ctx_worker/ctx_engine.h"
#include "gen_worker/gen_engine.h"
#include "router/placement/router_core.h"
#include "tests/sim/plan.h"
#include "tests/sim/step_thread.h"
#include "tests/sim/wire.h"

/* More than one run has prefills, so that the remainder of a handle is its own. */
#define PREFILLS_KEPT 1024u

struct cluster;

/* One worker process. Engine, sender or receiver of the other role are NULL. */
struct worker_node {
    struct cluster *cluster;
    uint32_t node;
    uint32_t router_worker; /* the router core's name for it, while it is listed */
    bool is_listed;         /* the router knows of it, alive or not */
    bool is_to_be_listed;   /* when the core has room for it */
    bool is_ctx, is_draining;
    uint64_t incarnation;
    uint64_t busy_until_ns, next_step_ns;
    /* A context worker's step whose layers take time; NULL: they take none. */
    struct step_thread *step_thread;
    bool is_in_step, is_hurried;         /* hurried: no more time passes in it */
    bool is_warm;                        /* has computed in this life */
    uint64_t layers_seen, layers_before; /* done so far, and before this step */
    struct device *device;
    struct block_pool *pool;
    struct forward *forward;
    struct drafter *drafter; /* NULL: none */
    struct transport *transport;
    struct kv_sender *sender;
    struct kv_receiver *receiver;
    struct ctx_engine *ctx;
    struct gen_engine *gen;
    struct tier_disk *disk; /* of all lives; NULL: no tier */
    struct kv_tier *tier;
    struct watch_node *watch;     /* of its prefix cache; NULL: it has none */
    struct prefix_key prefix_key; /* of this life */
    uint64_t tier_next_ns;        /* its next operation; TIMELINE_NEVER: none */
    /* A generation worker's knowledge of context workers, by node; incarnation 0: unknown. */
    struct transport_address *described; /* [n_ctx + 1], wire memory, as the next */
    uint64_t *last_incarnation;
    struct gen_prefill_call *prefills; /* its open ones, a list */
    struct ctx_call *streams;          /* a context worker's, of this life, a list */
    struct transport_source source;    /* the sender's own, behind the one that checks */
    struct client *client_of_prefill[PREFILLS_KEPT];
    uint64_t tokens_before; /* of the engine's counters, for the cost of a step */
    uint64_t kv_bytes_of_past_lives;
};

struct client {
    struct cluster *cluster;
    uint32_t index;
    const struct plan_request *plan;
    uint32_t *prompt;
    struct sampling_params sampling;
    bool wants_scores;              /* of its prompt */
    struct oracle_replies *replies; /* of a beam search: the right ones; NULL: it asks for none */
    uint32_t n_expected;            /* tokens of the right answer */
    enum gen_finish_reason reason_expected;
    const uint32_t *expected;
    uint32_t n_tokens; /* received */
    uint32_t n_scored; /* of the prompt, in order, each once */
    uint32_t n_ends;
    uint32_t n_attempts;
    uint32_t n_commits;     /* granted, of the attempt under way */
    struct wire_call *call; /* of its last attempt */
    uint32_t placed_on[2];  /* generation node, context node, of that attempt; 0: none */
    bool is_cancelled;
    enum status status;
};

struct totals {
    uint64_t runs, requests, ok, failed, cancelled, late;
    uint64_t handovers_committed, handovers_failed, fell_back, retried, waited, quarantines,
        recomputed, pauses, tokens_again, scored, adapted;
    uint64_t kv_bytes, prefix_cached, kills, late_pieces, commits_refused;
    uint64_t texts, texts_found, texts_crossed;       /* of an encoder, whole */
    uint64_t drafted, accepted;                       /* tokens that were guessed, and kept */
    uint64_t latents_crossed;                         /* prompts of the model that caches latents */
    uint64_t texts_narrow, texts_of_bart;             /* crossed with 8 bits; of those of BART */
    uint64_t searches, searches_crossed;              /* of beams; of these, with a hand-over */
    uint64_t forced_last;                             /* replies that ended with such a token */
    uint64_t local_prompts;                           /* in a crowd */
    uint64_t replies_dropping, crossed_short, narrow; /* with sinks */
    uint64_t watch_stored, watch_told, watch_removed, watch_snapshots;
    uint64_t tier_stored, tier_dropped, tier_restored, tier_late, tier_missed;
    uint64_t told_in_steps, committed_in_steps;
    uint64_t leaves, busy_leaves, joins, late_joins;
    uint64_t by_status[64];
};

struct cluster {
    const struct plan *plan;
    struct oracle *oracle;
    struct timeline timeline;
    struct wire wire;
    struct sim_fabric *fabric;
    struct router_core *router;
    struct random random;
    struct worker_node workers[WIRE_NODES_MAX]; /* by node; 0 is not used */
    char names[WIRE_NODES_MAX][8];
    uint32_t n_nodes;
    struct client clients[PLAN_REQUESTS_MAX];
    struct attempt_name *attempts; /* of router_node, the latest first */
    uint32_t n_live_clients;
    uint64_t next_life;
    uint64_t kv_bytes_expected;
    uint64_t kv_bytes_committed; /* what commits were asked for */
    bool is_verbose, has_failed;
    struct totals *totals;
};

/* False: something did not hold; what, is on standard error. */
bool cluster_run(const struct plan *plan, struct oracle *oracle, bool is_verbose,
                 struct totals *totals);

/* For the parts of a cluster. */
void cluster_fail(struct cluster *cluster, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void cluster_trace(const struct cluster *cluster, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static inline bool cluster_is_alive(const struct cluster *cluster, uint32_t node)
{
    return cluster->wire.nodes[node].life != 0;
}
