/*
 * context_client - the calls of a generation worker to context workers, and what is known of each of them.
 *
 *     engine thread                    rpc-client's queue thread
 *     start_prefill ----Describe?----> described -> Prefill -> events -> prefill_end
 *     cancel_prefill                                             |
 *     commit --------------------------------------------------> commit_result
 *
 * Where the client has a cluster key, a worker must first authenticate (GetState, which says nothing about this worker). Then
 * Describe must give the incarnation that has authenticated. Nothing that another process says is read.
 *
 * Each incarnation of a worker is described once. Its identity is kept until a call fails with STALE_PEER or breaks; then the
 * worker is described again before the next prefill. A prefill that fails with STALE_PEER before its first event is repeated
 * once, to the new incarnation. Any other failure ends it, and the engine falls back. A worker that was refused (for example for
 * its geometry) is described again from time to time, because the router relies on what this worker reports about its peers.
 *
 * Bounds: peers_max workers (a new one replaces the one that was unused for longest), prefills_max prefills, one Describe at a
 * time for each worker.
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
/* Before the first prefill. */
void context_client_set_engine(struct context_client *client, struct gen_engine *engine);
/* Closes the channels: before rpc is destroyed, which waits for the calls under way. NULL is fine. */
void context_client_close(struct context_client *client);
/* After rpc is destroyed. NULL is fine. */
void context_client_destroy(struct context_client *client);

/* The ops of gen_engine. */
void context_client_start_prefill(struct context_client *client, uint64_t id, const char *address,
                                  const struct gen_prefill_request *request);
void context_client_cancel_prefill(struct context_client *client, uint64_t id);
void context_client_commit(struct context_client *client, uint64_t prefill, const char *address,
                           const struct transfer_id *id, uint64_t kv_bytes, uint64_t incarnation);

/* Describes workers again that were refused some time ago. */
void context_client_look(struct context_client *client, uint64_t now_ns);

/* The known workers and why they are not ready; at most n. Returns how many. */
uint32_t context_client_peers(struct context_client *client, struct process_peer *peers_out,
                              uint32_t n);
