/*
 * kv_event_stream - SubscribeKvEvents: what the workers' prefix caches have, as one cache, in numbered batches.
 *
 *     router/events --spans--> event_streams (its thread) --> batches of up to KV_EVENT_BATCH_BLOCKS events --> gateways
 *
 * A batch is a stretch of events, the same for all gateways, so that one can go on after the batch that it had last. Numbers begin at
 * the time of the start, in microseconds: those of a router before this one are smaller, and get a snapshot. A gateway that is more
 * than KV_EVENT_BATCHES_KEPT batches behind gets one, too. Once a second a gateway gets a load, numbered 0.
 *
 * Bounds: KV_EVENT_GATEWAYS_MAX streams, of one caller KV_EVENT_CALLER_MAX. One batch of a stream is unsent.
 *
 * Thread: the queue thread opens streams, one of its own makes batches; finish main.
 */
#pragma once

#include "api/engine/engine_place.h"
#include "process/event_streams.h"

#define KV_EVENT_BATCH_BLOCKS 256u
#define KV_EVENT_BATCHES_KEPT 4096u /* a power of two */
#define KV_EVENT_GATEWAYS_MAX 16u
#define KV_EVENT_CALLER_MAX   4u

struct kv_event_stream;

/* NO_MEMORY. Starts no thread. */
MUST_CHECK enum status kv_event_stream_create(const struct engine_place *place,
                                              struct kv_event_stream **stream_out);
/* All calls have ended. NULL is fine. */
void kv_event_stream_destroy(struct kv_event_stream *stream);
/* The call becomes a stream after the batch of that number, or fails: LOADING, UNIMPLEMENTED, QUEUE_FULL, SHARE_FULL. */
void kv_event_stream_open(struct kv_event_stream *stream, struct rpc_call *rpc, uint64_t after,
                          bool takes_load_first);
