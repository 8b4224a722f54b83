/*
 * dispatch - the router's core with its mutex, and the calls to generation workers it asks for.
 *
 *     server queue thread   dispatch_start, on_end -> cancel          \
 *     client queue thread   messages and ends of Decode calls          > one mutex, core, generations
 *     main                  reports of workers, metrics               /
 *
 * The core's ops run with the mutex held and must not call the core again; what they would have to say
 * (a call that could not be started, a stop string) waits in a list that dispatch_unlock works off.
 *
 * Bounds: requests_max generations, one live call each and those being cancelled.
 *
 * Thread: any.
 */
#pragma once

#include "router/generation.h"
#include "router/router_core.h"
#include "rpc/client/client.h"

struct dispatch;

struct dispatch_options {
    struct router_core_options core;
    struct router_metrics *metrics; /* borrowed until destroy */
};

MUST_CHECK enum status dispatch_create(const struct dispatch_options *options, struct error *error,
                                       struct dispatch **dispatch_out);
/* No call may be live. NULL is fine. */
void dispatch_destroy(struct dispatch *dispatch);

/* channel is borrowed until it is removed, or destroy; a generation worker's calls are made over it. As
 * router_core_add_worker. */
MUST_CHECK enum status dispatch_add_worker(struct dispatch *dispatch, enum worker_role role,
                                           const char *address, struct rpc_channel *channel,
                                           uint32_t *worker_out);

/* It has left; see router_core_remove_worker. Calls on it go on. */
void dispatch_remove_worker(struct dispatch *dispatch, uint32_t worker);

/* Takes the generation, tokenized and prepared: on OK it will be finished; else the caller still has
 * it. DUPLICATE_REQUEST, and what router_core_generate says. */
MUST_CHECK enum status dispatch_start(struct dispatch *dispatch, struct generation *generation);

/* The core's functions of these names. */
void dispatch_ask(struct dispatch *dispatch, uint32_t worker);
void dispatch_report(struct dispatch *dispatch, uint32_t worker,
                     const struct worker_report *report);
/* A context worker would serve, but fits no generation worker: only said, in why a prompt is not handed
 * over; its report has it as not ready. */
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
/* Brings the metrics up to date. early: requests that wait elsewhere. */
void dispatch_count(struct dispatch *dispatch, uint32_t early);
