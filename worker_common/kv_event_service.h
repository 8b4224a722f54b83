/*
 * kv_event_service - the gRPC service KvEvent of both workers: what their prefix cache has (engine/cache_events.h).
 *
 * Token ids are text of users. They are told of the common cache alone, to callers who know the cluster key, and with mTLS to
 * routers and operators.
 *
 * Thread: handlers on the queue thread; start and stop main.
 */
#pragma once

#include "process/event_streams.h"
#include "process/process.h"
#include "worker_common/worker_metrics.h"

#define KV_EVENT_BATCH_EVENTS 512u   /* in one message */
#define KV_EVENT_BATCH_TOKENS 16384u /* likewise, at least those of one span */

struct kv_event_service {
    struct process *process;
    struct event_streams *streams; /* NULL: not started, or nobody can watch */
    struct kv_event_batch *batch;  /* of the streams' thread */
    const struct span_events *spans;
    struct counter *n_events;
    uint64_t n_told; /* of n_events; the engine's thread */
};

/* The row of a server's table; process is set. */
struct rpc_service kv_event_service_row(struct kv_event_service *service);
/* Before process_serving. spans NULL: calls fail, UNSUPPORTED. spans is borrowed until stop. NO_MEMORY, NO_THREAD. */
MUST_CHECK enum status kv_event_service_start(struct kv_event_service *service,
                                              const struct span_events *spans, uint32_t streams_max,
                                              const struct worker_metrics *metrics);
/* The ports are closed, and the engine's thread has ended. One that was not started is fine. */
void kv_event_service_stop(struct kv_event_service *service);
/* Brings the metric up to date. The engine's thread. */
void kv_event_service_tell(struct kv_event_service *service);
