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
 * Placement chooses among the compatible pairs of workers that are ready by their last report and have room. It
 * prefers, in this order: pairs that the request has not tried, generation workers with blocks for the whole request,
 * the smallest (tokens not known to be cached there + load), the least recently used pair. A bounded map, prefix hash
 * -> workers, remembers what is cached where, and drops the least recently used entry. A worker whose call failed, or
 * that refused a call without room, is not used until its next report. A request tries a pair once, and again after it
 * has waited a while and all others stay full.
 *
 * A refusal without room does not count as an attempt (QUEUE_FULL: the generation worker is full; NO_CONTEXT_WORKER:
 * the context worker is full; SHARE_FULL: the context worker is full for this generation worker only). The request goes
 * elsewhere, or waits for room, at most wait_limit_ns from the first refusal.
 *
 * While all context workers for a request are full, a long prompt waits for one during a part of that time before a
 * generation worker computes it (local_prefill), unless another request would be refused because of that.
 *
 * A request that cannot be placed waits, at most wait_limit_ns, counted by the steps. Every event that makes room (a
 * report, an end, a first token) places the next requests, tenant by tenant (waiting_room.h). Requests that arrive
 * before any generation worker is known are in early_requests. The deadline of a placed request is that of its call
 * (rpc ends it with TIMED_OUT).
 *
 * For each generate that returned OK, finish runs exactly once; it is the core's last use of the stream handle. Numbers
 * of attempts are never reused: late messages of an old attempt are dropped.
 *
 * Bounds: workers_max, requests_max at once, of which wait_max wait (requests that were placed before may wait in
 * addition), attempts_max for each request, prefixes_max remembered.
 *
 * Thread: one at a time (dispatch holds a mutex around every call, also while ops run).
 */
#pragma once

#include "router/placement/route_request.h"
#include "router/placement/router_core_options.h"
#include "router/placement/worker_report.h"

#include <stdbool.h>
#include <stdint.h>

struct router_core;

/* ops is copied. INVALID_ARGUMENT: a zero. NO_MEMORY. */
MUST_CHECK enum status router_core_create(const struct router_core_options *options,
                                          const struct router_core_ops *ops,
                                          struct router_core **core_out);
/* finish does not run for requests that are still running. NULL is fine. */
void router_core_destroy(struct router_core *core);

/* A worker is not ready until its first report. QUEUE_FULL: workers_max, some of which may have left but
 * still have calls. INVALID_ARGUMENT: the address is empty, too long or known for that role. */
MUST_CHECK enum status router_core_add_worker(struct router_core *core, enum worker_role role,
                                              const char *address, uint32_t *worker_out);
/* The worker has left: no request is placed on it any more, and its cached prefixes are forgotten; its
 * calls continue. Its number is reused only when it has no more calls; until then do not pass it to the
 * functions below. */
void router_core_remove_worker(struct router_core *core, uint32_t worker);
/* A report is being requested: the room in it is that of now or later. */
void router_core_ask(struct router_core *core, uint32_t worker);
void router_core_report(struct router_core *core, uint32_t worker,
                        const struct worker_report *report);
/* Sets whether that pair is compatible. All are, until this says otherwise. */
void router_core_set_fit(struct router_core *core, uint32_t generation_worker,
                         uint32_t context_worker, bool fits);
/* The number of ready workers of a role. */
uint32_t router_core_n_ready(const struct router_core *core, enum worker_role role);
/* The number of compatible pairs of ready workers. */
uint32_t router_core_n_pairs(const struct router_core *core);
/* Why no request can be placed: NO_GENERATION_WORKER, NO_CONTEXT_WORKER; OK: requests can be placed. */
enum status router_core_lacks(const struct router_core *core);
/* Whether no compatible context worker has room for the generation worker of a running attempt. */
bool router_core_contexts_are_full(const struct router_core *core, uint64_t attempt);

/* Sets the time; call it before the first request, too. Ends requests that have waited too long: with the
 * status of what is missing, with QUEUE_FULL if workers are ready and full, or with TIMED_OUT at the
 * deadline. */
void router_core_step(struct router_core *core, uint64_t now_ns);
/* Ends waiting requests with DRAINING; from then on none may wait. */
void router_core_drain(struct router_core *core);

/* Places and starts the request, or lets it wait. Without a place to wait, a request of a tenant that has more for its
 * weight may end with QUEUE_FULL instead. Not OK: nothing is kept, finish does not run: QUEUE_FULL (requests_max,
 * wait_max, or all workers full with wait_max 0), DRAINING, the status of what is missing (wait_max 0),
 * INVALID_ARGUMENT (prompt_tokens_max). */
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

/* A call received a message with n_tokens tokens; 0: with prompt progress. */
void router_core_tokens(struct router_core *core, uint64_t attempt, uint32_t n_tokens,
                        const void *payload);
/* A call ended; exactly once for each start_decode. */
void router_core_ended(struct router_core *core, uint64_t attempt, enum status status,
                       const char *sentence, const void *payload);

void router_core_read_stats(const struct router_core *core, struct router_core_stats *stats_out);
