/*
 * context_client - a generation worker's calls to context workers, and what it knows of them.
 *
 *     engine thread                    rpc-client's queue thread
 *     start_prefill ----Describe?----> described -> Prefill -> events -> prefill_end
 *     cancel_prefill                                             |
 *     commit --------------------------------------------------> commit_result
 *
 * Of a client with a key a worker must first prove itself (GetState, which tells nothing of us), then
 * describe the life that has: nothing of what a stranger says is looked at, whoever named it.
 *
 * A worker is described once a life: its identity is kept until a call to it says STALE_PEER or
 * breaks, then it is described again before the next prefill. A prefill that was refused as stale
 * before its first event is repeated once, to the new life; anything else ends it, and the engine
 * falls back. One that was refused when it was described (another geometry) is described again from time
 * to time, so that what this worker says of its peers becomes true again: the router goes by it.
 *
 * Bounds: peers_max workers (the one unused for longest goes), prefills_max prefills, one Describe a
 * worker at a time.
 *
 * Thread: any, by one mutex; the engine's functions are called with it held.
 */
#pragma once

#include "gen_worker/context_client_options.h"
#include "gen_worker/gen_engine.h"
#include "process/process_state.h"

struct context_client;

MUST_CHECK enum status context_client_create(const struct context_client_options *options,
                                             struct context_client **client_out);
/* Before the first call of the others. */
void context_client_set_engine(struct context_client *client, struct gen_engine *engine);
/* Closes the channels: before rpc is destroyed, which waits for the calls under way. NULL is fine. */
void context_client_close(struct context_client *client);
/* After it. NULL is fine. */
void context_client_destroy(struct context_client *client);

/* The ops of gen_engine. */
void context_client_start_prefill(struct context_client *client, uint64_t id, const char *address,
                                  const struct gen_prefill_request *request);
void context_client_cancel_prefill(struct context_client *client, uint64_t id);
void context_client_commit(struct context_client *client, uint64_t prefill, const char *address,
                           const struct transfer_id *id, uint64_t kv_bytes, uint64_t incarnation);

/* Describes again those that were refused some time ago. */
void context_client_look(struct context_client *client, uint64_t now_ns);

/* The known workers and why they are not ready; at most n. Returns how many. */
uint32_t context_client_peers(struct context_client *client, struct process_peer *peers_out,
                              uint32_t n);
