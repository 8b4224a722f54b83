/*
 * generation_service - the public gRPC service: Generate, Complete, Tokenize, Detokenize.
 *
 *     handler (queue thread): judge and copy -> tokenize here, or on the text thread when long
 *     -> dispatch_start -> replies by dispatch's ops
 *
 * Thread: handlers on the queue thread, long texts on the text thread.
 */
#pragma once

#include "process/process.h"
#include "router/dispatch.h"
#include "router/text_thread.h"
#include "router/worker_client.h"
#include "tokenizer/tokenizer.h"

struct generation_service {
    struct process *process;
    const char *model_name;
    const struct generation_defaults *defaults;
    const struct tokenizer *tokenizer; /* set before process_serving, as what follows */
    struct text_thread *text_thread;
    struct dispatch *dispatch;
    struct worker_clients *workers;
    struct router_metrics *metrics;
    uint64_t text_inline_bytes;
    uint64_t text_bytes_max;
    uint64_t reply_bytes_max;
};

/* The row of a server's table. */
struct rpc_service generation_service_row(struct generation_service *service);
