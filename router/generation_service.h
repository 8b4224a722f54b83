/*
 * generation_service - the public gRPC service: Generate, Complete, Tokenize, Detokenize.
 *
 *     handler (queue thread): judge and copy -> tokenize here, or on the text thread when long
 *       |          ^          -> dispatch_start -> replies by dispatch's ops
 *       v          |
 *     early_requests: the tokenizer is loading, or what is served, by which to judge, is not known yet
 *
 * Thread: handlers on the queue thread, long texts on the text thread, the other functions on main.
 */
#pragma once

#include "process/process.h"
#include "router/dispatch.h"
#include "router/early_requests.h"
#include "router/text_calls.h"
#include "router/worker_client.h"

#include <stdatomic.h>

struct generation_service {
    /* Set before the port opens, as metrics and texts.model_name: */
    struct process *process;
    struct early_requests *early;
    struct text_calls texts;
    const struct generation_defaults *defaults; /* set before process_serving, as what follows */
    struct dispatch *dispatch;
    struct worker_clients *workers;
    struct router_metrics *metrics;
    int32_t priority_max;         /* where there are no tenants */
    _Atomic bool has_told_double; /* that a text began with what is added to it */
};

/* The row of a server's table. */
struct rpc_service generation_service_row(struct generation_service *service);

/* Takes the early requests when it is known what is served, and ends those that shall wait no longer. */
void generation_service_look(struct generation_service *service, uint64_t now_ns);
/* Refuses them, and lets none wait any more. */
void generation_service_drain(struct generation_service *service);
