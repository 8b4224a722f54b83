/*
 * router_core - places tokenized requests on pairs of workers, and places them again when a pair
 * fails before the first token.
 *
 *     generate --> place: generation worker + context worker --> ops.start_decode
 *       |  ^          ^                                             |
 *       |  | turn     +--- retryable status, no token sent ---- ended | tokens --> ops.tokens
 *       v  |                                                      other --> ops.finish
 *     wait: no worker is ready, or none has room --- step: too long --> ops.finish
 *
 * Placement, among the workers that their last report calls ready, that have room and that fit each other: where the
 * request has not been yet, then generation workers with blocks for the whole request, then the least of (tokens not
 * known to be cached there + load), and of equals those used least lately. What is cached where is remembered as prefix
 * hash -> workers in a bounded map, least recently used out. A worker whose call broke, or that refused one for want of
 * room, is not used again until its next report. A pair is tried once a request, and again when the request
 * has waited a while and all others stay full.
 *
 * A refusal for want of room (QUEUE_FULL of the generation worker, NO_CONTEXT_WORKER of the context worker, SHARE_FULL of that
 * for this generation worker alone) is no attempt: the request goes elsewhere, or waits until there is room; from its first one
 * it has wait_limit_ns.
 *
 * While the context workers that a request could go to are full, a long prompt waits for one a part of that time before a
 * generation worker computes it (local_prefill), unless somebody would be refused for that.
 *
 * A request waits while it cannot be placed, for wait_limit_ns at most, counted by the steps. Whatever makes room
 * (a report, an end, a first token) places those whose turn it is (waiting_room.h), tenant by tenant.
 * Requests that came before any generation worker was seen are not here yet: early_requests.
 * The deadline of a request that is placed is its call's (rpc ends that, with TIMED_OUT).
 *
 * For each generate that returned OK finish is called exactly once, the core's last use of the stream
 * handle. Attempts are numbers never reused: what comes late for one is dropped.
 *
 * Bounds: workers_max, requests_max at once of which wait_max wait (who was placed already may wait beyond), attempts_max
 * a request, prefixes_max remembered.
 *
 * Thread: one at a time (the product holds a mutex around every call, also while ops run).
 */
#pragma once

#include "router/route_request.h"
#include "router/router_core_options.h"
#include "router/worker_report.h"

#include <stdbool.h>
#include <stdint.h>

struct router_core;

/* ops is copied. INVALID_ARGUMENT: a zero. NO_MEMORY. */
MUST_CHECK enum status router_core_create(const struct router_core_options *options,
                                          const struct router_core_ops *ops,
                                          struct router_core **core_out);
/* Requests that still run get no finish. NULL is fine. */
void router_core_destroy(struct router_core *core);

/* Known workers are not ready until their first report. QUEUE_FULL: workers_max, of which some may have
 * left that calls are still on. INVALID_ARGUMENT: the address is empty, too long or known for that role. */
MUST_CHECK enum status router_core_add_worker(struct router_core *core, enum worker_role role,
                                              const char *address, uint32_t *worker_out);
/* It has left: nothing is placed on it any more and what it had cached is forgotten; calls on it go on to
 * their own end. Its number is another worker's only when none is left, and no argument of the functions
 * below until then. */
void router_core_remove_worker(struct router_core *core, uint32_t worker);
/* It is being asked for a report: what that says of its room is of now or later. */
void router_core_ask(struct router_core *core, uint32_t worker);
void router_core_report(struct router_core *core, uint32_t worker,
                        const struct worker_report *report);
/* Whether that pair can hand over. All can until this says otherwise. */
void router_core_set_fit(struct router_core *core, uint32_t generation_worker,
                         uint32_t context_worker, bool fits);
/* Ready workers of a role. */
uint32_t router_core_n_ready(const struct router_core *core, enum worker_role role);
/* Pairs of ready workers that fit. */
uint32_t router_core_n_pairs(const struct router_core *core);
/* What keeps every request from being placed: NO_GENERATION_WORKER, NO_CONTEXT_WORKER; OK: nothing. */
enum status router_core_lacks(const struct router_core *core);
/* Of the generation worker of an attempt that is under way: all context workers that fit it have no room for it. */
bool router_core_contexts_are_full(const struct router_core *core, uint64_t attempt);

/* What time it is, before the first request too: ends what has waited too long, with what is lacking, with
 * QUEUE_FULL when workers are ready and full, or with TIMED_OUT at its deadline. */
void router_core_step(struct router_core *core, uint64_t now_ns);
/* Ends what waits with DRAINING, and lets nothing wait any more. */
void router_core_drain(struct router_core *core);

/* Places and starts, or lets wait; where there is no place for it, one of a tenant that has more for its weight may have
 * to end for it, with QUEUE_FULL. Not OK: nothing is kept, finish is not called for it: QUEUE_FULL
 * (requests_max, wait_max, and of 0 when all are full), DRAINING, what is lacking (wait_max of 0), INVALID_ARGUMENT
 * (prompt_tokens_max). */
MUST_CHECK enum status router_core_generate(struct router_core *core, void *stream,
                                            const struct route_request *request);
/* Places for n more requests that come later, with is_reserved. QUEUE_FULL: there are not so many. */
MUST_CHECK enum status router_core_reserve(struct router_core *core, uint32_t n);
/* Gives back n of them that nobody will use. */
void router_core_unreserve(struct router_core *core, uint32_t n);
/* The generation worker that has that stream's call; NOBODY: none. */
uint32_t router_core_place(const struct router_core *core, const void *stream);
/* The client left, or has what it wanted (a stop string): the call, if it is placed, is cancelled and
 * finish called with CANCELLED before this returns. False: no such stream (it has finished). */
bool router_core_cancel(struct router_core *core, void *stream);

/* A call had a message with n_tokens tokens; 0: with how far its prompt is. */
void router_core_tokens(struct router_core *core, uint64_t attempt, uint32_t n_tokens,
                        const void *payload);
/* A call ended; exactly once for each start_decode. */
void router_core_ended(struct router_core *core, uint64_t attempt, enum status status,
                       const char *sentence, const void *payload);

void router_core_read_stats(const struct router_core *core, struct router_core_stats *stats_out);
