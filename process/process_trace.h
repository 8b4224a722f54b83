/*
 * process_trace - the tracer of a process and, with otlp_endpoint, the client of its collector.
 *
 * Thread: main; tracer is used from any.
 */
#pragma once

#include "trace/otlp_client.h"

struct process_trace_options {
    const char *endpoint; /* "": nothing is recorded */
    const char *ca;
    double ratio;
    uint32_t rate_max;
};

/* The sender of the spans. */
struct process_trace_sender {
    const char *role, *name;
    uint64_t incarnation;
    struct rpc_runtime *runtime; /* outlives the trace */
};

#define PROCESS_TRACE_INSTANCE_MAX 160u

struct process_trace {
    struct trace_metrics metrics;
    struct tracer *tracer;      /* NULL: nothing is recorded */
    struct otlp_client *client; /* NULL: not connected yet */
    char instance[PROCESS_TRACE_INSTANCE_MAX];
};

/* INVALID_ARGUMENT with the row: an invalid address, or a file that cannot be read. */
MUST_CHECK enum status process_trace_check(const struct process_trace_options *options,
                                           struct error *error);
/* Registers its metrics. After a failure call process_trace_finish. */
MUST_CHECK enum status process_trace_init(struct process_trace *trace,
                                          const struct process_trace_options *options,
                                          struct metrics *metrics, struct error *error);
/* Called when the process has its name: from now on spans are sent. */
MUST_CHECK enum status process_trace_connect(struct process_trace *trace,
                                             const struct process_trace_options *options,
                                             const struct process_trace_sender *sender,
                                             struct error *error);
void process_trace_look(struct process_trace *trace, uint64_t now_ns);
/* Sends the remaining spans, for a second at most. All zeros is fine. */
void process_trace_finish(struct process_trace *trace);
