/*
 * model_service - the public gRPC service ModelService: the served model and its properties.
 *
 * Thread: handlers on the queue thread.
 */
#pragma once

#include "process/process.h"
#include "router/worker_client.h"

struct model_service {
    const char *model_name;
    const char *tokenizer_digest;   /* hexadecimal; set before process_serving, as workers */
    struct worker_clients *workers; /* the source of the rest */
    struct process *process;
};

/* The row of a server's table. */
struct rpc_service model_service_row(struct model_service *service);

/* The card for clients. NO_GENERATION_WORKER: no worker has reported it yet. */
MUST_CHECK enum status model_service_card(struct model_service *service,
                                          struct model_card *card_out);
