/*
 * worker_sources - follows where a router's workers are, whoever knows that.
 *
 *     name_lookup --+
 *   k8s_endpoints --+--> the set of one entry of the list --> look: the union of all --> worker_clients
 *     literals -----+     (any thread, under a mutex)         (main)
 *
 * A source is one entry of a worker_list. Each says from a thread of its own, when it has changed, all the
 * addresses that there are; the last word counts. A worker that two entries lead to is one worker.
 *
 * Thread: main; sources deliver from theirs.
 */
#pragma once

#include "base/status.h"
#include "router/worker_client.h"

struct worker_sources;

struct worker_sources_options {
    struct worker_clients *clients; /* borrowed until stop */
    const char *generation_workers; /* see worker_list.h */
    const char *context_workers;
    uint64_t resolve_ns; /* between two questions for the addresses of a name */
};

/* As worker_list_read. */
MUST_CHECK enum status worker_sources_check(const char *generation_workers,
                                            const char *context_workers, struct error *error);

/* As worker_sources_check, and as k8s_endpoints_start; NO_MEMORY, NO_THREAD. The workers with literal addresses are known when it returns. */
MUST_CHECK enum status worker_sources_start(const struct worker_sources_options *options,
                                            struct error *error,
                                            struct worker_sources **sources_out);
/* Before the clients are closed. Returns soon, whatever a source is waiting for. NULL is fine. */
void worker_sources_stop(struct worker_sources *sources);

/* Hands on what has changed. */
void worker_sources_look(struct worker_sources *sources, uint64_t now_ns);
