/*
 * otlp_codec - encodes spans as the message of TraceService/Export.
 *
 * Its memory is allocated once, for spans_max spans; a message borrows from it and from the spans.
 *
 * Thread: a batch belongs to one.
 */
#pragma once

#include "proto/opentelemetry/proto/collector/trace/v1/trace_service.pb-c.h"
#include "trace/span.h"

struct otlp_batch;

/* The sender of the spans; borrowed as long as the batch. */
struct otlp_resource {
    const char *service; /* "kvferry" */
    const char *instance;
    const char *version;
    const char *role;
};

MUST_CHECK enum status otlp_batch_create(const struct otlp_resource *resource, uint32_t spans_max,
                                         struct otlp_batch **batch_out);
void otlp_batch_destroy(struct otlp_batch *batch); /* NULL is fine */

/* n <= spans_max. epoch_ns: when clock_now_ns was 0, in nanoseconds since 1970. Valid until the next
 * call. */
const Opentelemetry__Proto__Collector__Trace__V1__ExportTraceServiceRequest *
otlp_batch_encode(struct otlp_batch *batch, struct span *spans, uint32_t n, uint64_t epoch_ns);
