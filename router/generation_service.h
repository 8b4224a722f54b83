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
#include "router/text_thread.h"
#include "router/worker_client.h"
#include "tokenizer/tokenizer.h"

#include <stdatomic.h>

struct generation_service {
    struct process *process;
    const char *model_name; /* set before the port opens, as process, early and metrics */
    const struct generation_defaults *defaults;
    const struct tokenizer *tokenizer; /* set before process_serving, as what follows */
    struct text_thread *text_thread;
    struct early_requests *early;
    struct dispatch *dispatch;
    struct worker_clients *workers;
    struct router_metrics *metrics;
    uint64_t text_inline_bytes;
    uint64_t text_bytes_max;
    uint64_t reply_bytes_max;
    int32_t priority_max;         /* where there are no tenants */
    _Atomic bool has_told_double; /* that a text began with what is added to it */
};

/* The row of a server's table. */
struct rpc_service generation_service_row(struct generation_service *service);

/* Takes the early requests when it is known what is served, and ends those that shall wait no longer. */
void generation_service_look(struct generation_service *service, uint64_t now_ns);
/* Refuses them, and lets none wait any more. */
void generation_service_drain(struct generation_service *service);
