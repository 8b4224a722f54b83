/*
 * generation_service - the public gRPC service: Generate, Complete, Tokenize, Detokenize.
 *
 *     handler (queue thread): check and copy -> tokenize here, or on the text thread if long
 *       |          ^          -> dispatch_start -> replies by dispatch's ops
 *       v          |
 *     early_requests: the tokenizer is loading, or the model for the checks is not known yet
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
    const struct generation_defaults *defaults; /* set before process_serving, as those below */
    struct dispatch *dispatch;
    struct worker_clients *workers;
    struct router_metrics *metrics;
    int32_t priority_max;         /* without tenants */
    _Atomic bool has_told_double; /* it has logged a doubled beginning of text */
};

/* The row of a server's table. */
struct rpc_service generation_service_row(struct generation_service *service);

/* Serves the early requests when the model is known, and ends those that have waited too long. */
void generation_service_look(struct generation_service *service, uint64_t now_ns);
/* Refuses the early requests; from then on none may wait. */
void generation_service_drain(struct generation_service *service);
