/*
 * tracer - decides which requests of this process are recorded, and keeps their finished spans until they
 * are exported.
 *
 *     traceparent of the caller -> tracer_begin (a router: it decides) or tracer_enter (a worker: it obeys)
 *         -> trace_place -> tracer_tell, by any thread -> ring -> tracer_take (span_exporter)
 *
 * A request without a traceparent is recorded with the probability ratio, under a new trace id; otherwise
 * the caller's sampled flag decides, both ways. No more than rate_max requests a second are recorded: over
 * it the flag is taken off, so that the workers do not record what nobody could put together.
 *
 * Who records nothing hands its caller's context on as it came: a trace has no hole where a process does
 * not export.
 *
 * Bounds: spans_max finished spans; one more is dropped and counted. Nothing waits, nothing is allocated
 * after creation; one short lock a span, and none for a request that is not recorded.
 *
 * A tracer that is NULL records nothing, and costs nothing.
 *
 * Thread: any; tracer_take one.
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
    uint32_t rate_max; /* requests a second that may be recorded */
    uint32_t spans_max;
    uint64_t seed;                       /* of ids: drawn once a process */
    const struct trace_metrics *metrics; /* borrowed until destroy */
};

MUST_CHECK enum status tracer_create(const struct tracer_options *options,
                                     struct tracer **tracer_out);
void tracer_destroy(struct tracer *tracer); /* NULL is fine */

/* A request's place in its trace, in this process. */
struct trace_place {
    struct trace_context context; /* to hand on; its span is this process's, if that is recorded */
    uint8_t parent_id[SPAN_ID_BYTES];
    bool is_recorded;
};

/* caller may be none. tracer may be NULL in all of these. */
void tracer_begin(struct tracer *tracer, const struct trace_context *caller, uint64_t now_ns,
                  struct trace_place *place_out);
void tracer_enter(struct tracer *tracer, const struct trace_context *caller,
                  struct trace_place *place_out);

/* Keeps the span of the place itself, whose parent is who called; a part of it. Both set the span's ids; of
 * what is not recorded they do nothing. To enter a place's own context makes a place within it. */
void tracer_tell_own(struct tracer *tracer, const struct trace_place *place, struct span *span);
void tracer_tell(struct tracer *tracer, const struct trace_place *place, struct span *span);

uint32_t tracer_count(const struct tracer *tracer); /* kept and not taken */
/* At most n of the oldest. Returns how many. */
uint32_t tracer_take(struct tracer *tracer, struct span *spans_out, uint32_t n);
