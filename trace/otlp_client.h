/*
 * otlp_client - sends the spans of a tracer to a collector, by OTLP over gRPC.
 *
 * A batch is sent when OTLP_BATCH_SPANS exist or a second has passed, one batch at a time, with a deadline of
 * OTLP_LIMIT_NS. Spans that a collector does not accept are dropped and counted, and never sent again: a
 * collector that is down, hangs or refuses costs the memory of one batch and the tracer's ring, and no thread
 * waits for it. Each change between success and failure is one log line.
 *
 * It has its own runtime, so that the collector affects neither the threads that serve requests nor liveness.
 *
 * Thread: the one that created it; gRPC's callbacks run on the runtime's thread.
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
    const char *ca;       /* path of the CAs of its certificate; "": clear text */
    struct otlp_resource resource;
    /* Borrowed until destroy, as the texts are. */
    struct tracer *tracer;
    const struct trace_metrics *metrics;
    struct rpc_runtime *runtime;
};

/* NO_MEMORY, also if the file ca cannot be read; error says which. */
MUST_CHECK enum status otlp_client_create(const struct otlp_client_options *options,
                                          struct error *error, struct otlp_client **client_out);
/* Drops and counts unsent spans. NULL is fine. */
void otlp_client_destroy(struct otlp_client *client);

/* Call it a few times a second. unix_ns: now, since 1970. */
void otlp_client_look(struct otlp_client *client, uint64_t now_ns, uint64_t unix_ns);
/* For the end of a process: sends the remaining spans and waits, at most until until_ns. */
void otlp_client_flush(struct otlp_client *client, uint64_t now_ns, uint64_t unix_ns,
                       uint64_t until_ns);
