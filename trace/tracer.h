/*
 * tracer - decides which requests are traced, and keeps their finished spans until they are exported.
 *
 *     traceparent of the caller -> tracer_begin (a router: decides) or tracer_enter (a worker: follows)
 *         -> trace_place -> tracer_tell, by any thread -> ring -> tracer_take (span_exporter)
 *
 * A request without a traceparent is recorded with the probability ratio, under a new trace id; otherwise
 * the caller's sampled flag decides. No more than rate_max requests a second are recorded: beyond that the
 * flag is removed, so that the workers do not record parts of an incomplete trace.
 *
 * A process that does not record passes the caller's context on unchanged, so that a trace stays
 * connected.
 *
 * Bounds: spans_max finished spans; more are dropped and counted. Nothing blocks or allocates after
 * creation, except for one short lock for each span; none for a request that is not recorded.
 *
 * A NULL tracer records nothing and costs nothing.
 *
 * Thread: any; tracer_take: one.
 */
#pragma once

#include "base/metrics/metrics.h"
#include "trace/span.h"

#define TRACE_METRICS(X)                                                                           \
    X(COUNTER, queue_full, "kvferry_trace_spans_dropped_total", "reason=queue_full",               \
      "Spans that were not sent to the collector: too many at once, or an export failed.")         \
    X(COUNTER, export_failed, "kvferry_trace_spans_dropped_total", "reason=export_failed",         \
      "Spans that were not sent to the collector: too many at once, or an export failed.")         \
    X(COUNTER, exported, "kvferry_trace_spans_exported_total", "",                                 \
      "Spans that the collector accepted.")

METRICS_DECLARE(trace_metrics, TRACE_METRICS);

struct tracer;

struct tracer_options {
    double ratio;      /* 0 .. 1 */
    uint32_t rate_max; /* most recorded requests in a second */
    uint32_t spans_max;
    uint64_t seed;                       /* of ids: drawn once in a process */
    const struct trace_metrics *metrics; /* borrowed until destroy */
};

MUST_CHECK enum status tracer_create(const struct tracer_options *options,
                                     struct tracer **tracer_out);
void tracer_destroy(struct tracer *tracer); /* NULL is fine */

/* The position of a request in its trace, in this process. */
struct trace_place {
    struct trace_context context; /* to pass on; its span is that of this process, if recorded */
    uint8_t parent_id[SPAN_ID_BYTES];
    bool is_recorded;
};

/* caller may be empty. tracer may be NULL in all functions. */
void tracer_begin(struct tracer *tracer, const struct trace_context *caller, uint64_t now_ns,
                  struct trace_place *place_out);
void tracer_enter(struct tracer *tracer, const struct trace_context *caller,
                  struct trace_place *place_out);

/* tracer_tell_own keeps the span of the place itself, whose parent is the caller; tracer_tell keeps a part
 * of it. Both set the ids of the span, and do nothing if the request is not recorded. tracer_enter with the
 * context of a place makes a place below it. */
void tracer_tell_own(struct tracer *tracer, const struct trace_place *place, struct span *span);
void tracer_tell(struct tracer *tracer, const struct trace_place *place, struct span *span);

uint32_t tracer_count(const struct tracer *tracer); /* spans that are not taken yet */
/* Takes the oldest spans, at most n. Returns how many. */
uint32_t tracer_take(struct tracer *tracer, struct span *spans_out, uint32_t n);
