/*
 * router_watch - what the page of a router shows: gathers a view from the parts that know it.
 *
 * Thread: open and connect: main; the rest is the HTTP server's, which takes the locks of these parts for a copy.
 */
#pragma once

#include "process/process.h"
#include "router/dispatch/dispatch.h"
#include "router/requests/early_requests.h"
#include "router/router_config.h"
#include "router/workers/worker_client.h"

/* What a view is gathered from; all borrowed until watch_connect to NULL. */
struct router_watch {
    const struct process *process;
    const char *model_name;
    struct dispatch *dispatch;
    struct worker_clients *workers;
    struct early_requests *early;
};

/* A watch as the rows say; NULL without one (page no). NO_MEMORY. */
MUST_CHECK enum status router_watch_open(const struct router_config *config,
                                         struct watch **watch_out);
/* A watch_source; arg is a router_watch. */
void router_watch_fill(void *arg, struct watch_view *view);
