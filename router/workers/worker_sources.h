/*
 * worker_sources - follows the addresses of a router's workers from all sources.
 *
 *     name_lookup --+
 *   k8s_endpoints --+--> the set of one entry of the list --> look: the union of all --> worker_clients
 *     literals -----+     (any thread, under a mutex)         (main)
 *
 * A source is one entry of a worker_list. After each change it reports all its addresses, from its own
 * thread; the last report counts. A worker in two entries is one worker.
 *
 * Thread: main; sources deliver from theirs.
 */
#pragma once

#include "base/status.h"
#include "router/workers/worker_client.h"

struct worker_sources;

struct worker_sources_options {
    struct worker_clients *clients; /* borrowed until stop */
    const char *generation_workers; /* see worker_list.h */
    const char *context_workers;
    uint64_t resolve_ns; /* between two lookups of a name */
};

/* Checks as worker_list_read. */
MUST_CHECK enum status worker_sources_check(const char *generation_workers,
                                            const char *context_workers, struct error *error);

/* Fails as worker_sources_check and k8s_endpoints_start; NO_MEMORY, NO_THREAD. The workers with literal addresses are
 * known when it returns. */
MUST_CHECK enum status worker_sources_start(const struct worker_sources_options *options,
                                            struct error *error,
                                            struct worker_sources **sources_out);
/* Call it before the clients are closed. Returns soon, even if a source is waiting. NULL is fine. */
void worker_sources_stop(struct worker_sources *sources);

/* Passes changes to the clients. */
void worker_sources_look(struct worker_sources *sources, uint64_t now_ns);
