/*
 * ctx_service - the gRPC service ContextWorker in front of the engine.
 *
 *     Prefill         a worker_stream is the engine's handle
 *     Commit          answered at once, by the thread that it reaches
 *     Abort           the call itself is the engine's handle
 *     Describe        answered at once: both identities are known
 *
 * Thread: handlers on the queue thread; the ops of ctx_service_ops on the engine thread.
 */
#pragma once

#include "ctx_worker/ctx_engine.h"
#include "ctx_worker/ctx_metrics.h"
#include "ctx_worker/described_lives.h"
#include "process/admin_service.h"
#include "sampling_params/sampling_codec.h"
#include "worker_common/identity_codec.h"

struct adapter_set;

struct ctx_service {
    struct process *process;
    struct ctx_engine *engine; /* set before process_serving */
    struct kv_sender *sender;  /* the same, as the members below */
    struct described_lives *lives;
    const struct worker_identity *identity;
    uint32_t vocabulary;
    struct adapter_set *adapters; /* NULL: there are none */
    bool kv_digest;               /* digests take a while: no first token waits for them */
    struct ctx_metrics metrics;
    struct prompt_scores_message scores; /* of the engine's thread */
};

/* The row of a server's table. */
struct rpc_service ctx_service_row(struct ctx_service *service);
struct ctx_engine_ops ctx_service_ops(struct ctx_service *service);
