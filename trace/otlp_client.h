/*
 * otlp_client - sends a tracer's spans to a collector, by OTLP over gRPC.
 *
 * A batch leaves when OTLP_BATCH_SPANS are there or a second has passed, one at a time, with a deadline of
 * OTLP_LIMIT_NS. What a collector does not take is dropped and counted, never sent again: a collector that is
 * down, hangs or refuses costs one batch and the tracer's ring, and nobody waits for it. A change from
 * taken to not taken, and back, is one line of log.
 *
 * It has a runtime of its own: whatever the collector does is no business of the threads that serve requests,
 * nor of liveness.
 *
 * Thread: the one that created it; but gRPC's callbacks, on the runtime's thread.
 */
#pragma once

#include "rpc/client/client.h"
#include "trace/otlp_codec.h"
#include "trace/tracer.h"

#define OTLP_BATCH_SPANS 512u
#define OTLP_PERIOD_NS   NS_PER_S
#define OTLP_LIMIT_NS    (5 * NS_PER_S)

struct otlp_client;

struct otlp_client_options {
    const char *endpoint; /* "host:port" */
    const char *ca;       /* path of the CAs that its certificate is of; "": clear text */
    struct otlp_resource resource;
    /* Borrowed, as the texts, until destroy. */
    struct tracer *tracer;
    const struct trace_metrics *metrics;
    struct rpc_runtime *runtime;
};

/* NO_MEMORY, also when the file ca cannot be read: error says so. */
MUST_CHECK enum status otlp_client_create(const struct otlp_client_options *options,
                                          struct error *error, struct otlp_client **client_out);
/* Gives up what is under way, and counts it. NULL is fine. */
void otlp_client_destroy(struct otlp_client *client);

/* A few times a second. unix_ns: now, since 1970. */
void otlp_client_look(struct otlp_client *client, uint64_t now_ns, uint64_t unix_ns);
/* Sends what there is and waits for it, until_ns at most: at the end of a process. */
void otlp_client_flush(struct otlp_client *client, uint64_t now_ns, uint64_t unix_ns,
                       uint64_t until_ns);
