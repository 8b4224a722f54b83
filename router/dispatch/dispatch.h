/*
 * dispatch - the router's core with its mutex, and the Decode calls to generation workers.
 *
 *     queue thread   dispatch_start, on_end -> cancel; messages and ends of Decode calls   \
 *     main           reports of workers, metrics                                           / one mutex, core, generations
 *
 * The core's ops run with the mutex held and must not call the core again. Their results (a call that
 * could not be started, a stop string) wait in a list that dispatch_unlock processes.
 *
 * Bounds: requests_max generations, each with one live call, and the calls that are being cancelled.
 *
 * Thread: any.
 */
#pragma once

#include "router/placement/router_core.h"
#include "router/requests/generation.h"
#include "router/watch/watch.h"
#include "rpc/client/client.h"

struct dispatch;

struct dispatch_options {
    struct router_core_options core;
    struct router_metrics *metrics; /* borrowed until destroy */
    const struct watch *watch;      /* the same; NULL: nothing is remembered for it */
    uint32_t ended_max;             /* with watch: requests that are remembered */
};

MUST_CHECK enum status dispatch_create(const struct dispatch_options *options, struct error *error,
                                       struct dispatch **dispatch_out);
/* No call may be live any more. NULL is fine. */
void dispatch_destroy(struct dispatch *dispatch);

/* channel is borrowed until the worker is removed, or destroy; it carries the calls to a generation
 * worker. Fails as router_core_add_worker. */
MUST_CHECK enum status dispatch_add_worker(struct dispatch *dispatch, enum worker_role role,
                                           const char *address, struct rpc_channel *channel,
                                           uint32_t *worker_out);

/* The worker has left; see router_core_remove_worker. Its calls continue. */
void dispatch_remove_worker(struct dispatch *dispatch, uint32_t worker);

/* Takes the tokenized and prepared generation: on OK it will be finished; else the caller keeps it.
 * DUPLICATE_REQUEST, and errors of router_core_generate. */
MUST_CHECK enum status dispatch_start(struct dispatch *dispatch, struct generation *generation);

/* The core's functions of these names. */
void dispatch_ask(struct dispatch *dispatch, uint32_t worker);
void dispatch_report(struct dispatch *dispatch, uint32_t worker,
                     const struct worker_report *report);
/* A context worker is up, but compatible with no generation worker: it only becomes the reason why a
 * prompt has no KV transfer; its report says not ready. */
void dispatch_set_unfit(struct dispatch *dispatch, uint32_t context_worker, bool is_unfit);
void dispatch_set_fit(struct dispatch *dispatch, uint32_t generation_worker,
                      uint32_t context_worker, bool fits);
void dispatch_step(struct dispatch *dispatch, uint64_t now_ns);
void dispatch_drain(struct dispatch *dispatch);

struct dispatch_view {
    enum status lacks; /* see router_core_lacks */
    uint32_t pairs;    /* of ready workers that fit */
    uint32_t live;     /* choices of requests: those placed, those that wait, those being ended */
    uint32_t waiting;
};
void dispatch_look(struct dispatch *dispatch, struct dispatch_view *view_out);
/* Sets the lists and counts of requests, and the flows, of what is shown to people. Holds the mutex for a look at each
 * live request, and copies at most the view's bounds. */
void dispatch_watch(struct dispatch *dispatch, struct watch_view *view);
/* Updates the metrics. early: requests that wait in early_requests. */
void dispatch_count(struct dispatch *dispatch, uint32_t early);
