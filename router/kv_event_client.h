/*
 * kv_event_client - follows what the prefix caches of a router's workers have, for gateways that see one engine.
 *
 *     KvEventService.Watch of each ready worker (rpc queue thread) --> block_union --> readers of its spans
 *
 * Only what is told with its tokens counts, which is the common cache (worker_common/kv_event_service.h). A worker with another
 * kv_block_tokens than the router's is left out. When a worker's stream ends, for whatever reason, its blocks are removed; a new one
 * begins with a snapshot, at first at once, then up to a few seconds later.
 *
 * Bounds: PROCESS_PEERS_MAX streams; blocks_max blocks.
 *
 * Thread: look, create, close, destroy main; spans any.
 */
#pragma once

#include "kvcache/span_events.h"
#include "process/process_state.h"
#include "router/requests/router_metrics.h"
#include "rpc/client/client.h"

struct kv_event_client;

struct kv_event_client_options {
    struct rpc_client *rpc; /* borrowed until it is destroyed */
    struct router_series *series;
    uint32_t blocks_max;
    uint32_t block_tokens;
};

/* NO_MEMORY, and as random_secret. */
MUST_CHECK enum status kv_event_client_create(const struct kv_event_client_options *options,
                                              struct error *error,
                                              struct kv_event_client **client_out);
/* Follows those of the peers that are ready; the streams of those that are not among them end. */
void kv_event_client_look(struct kv_event_client *client, const struct process_peer *peers,
                          uint32_t n, uint64_t now_ns);
/* Before the rpc client is destroyed, which ends the streams. NULL is fine, as below. */
void kv_event_client_close(struct kv_event_client *client);
/* After that; nobody reads the spans. */
void kv_event_client_destroy(struct kv_event_client *client);

const struct span_events *kv_event_client_spans(const struct kv_event_client *client);
