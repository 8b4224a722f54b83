#include "trace/otlp_codec.h"

#include "rpc/borrow.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef Opentelemetry__Proto__Common__V1__AnyValue any_value;
typedef Opentelemetry__Proto__Common__V1__KeyValue key_value;
typedef Opentelemetry__Proto__Trace__V1__Span span_message;
typedef Opentelemetry__Proto__Trace__V1__Status status_message;

enum {
    ATTRIBUTES_MAX = SPAN_ATTRIBUTES_MAX + 2, /* and the request's id and the status */
    RESOURCE_ATTRIBUTES = 4,
};

#define FLAG_SAMPLED 1u

/* A list of attributes with the memory that it points to. */
struct attributes {
    any_value values[ATTRIBUTES_MAX];
    key_value pairs[ATTRIBUTES_MAX];
    key_value *list[ATTRIBUTES_MAX];
    size_t n;
};

struct span_memory {
    span_message message;
    status_message status;
    struct attributes attributes;
};

struct otlp_batch {
    uint32_t spans_max;
    struct attributes of_resource;
    Opentelemetry__Proto__Resource__V1__Resource resource;
    Opentelemetry__Proto__Common__V1__InstrumentationScope scope;
    Opentelemetry__Proto__Trace__V1__ScopeSpans scope_spans, *scope_list[1];
    Opentelemetry__Proto__Trace__V1__ResourceSpans resource_spans, *resource_list[1];
    Opentelemetry__Proto__Collector__Trace__V1__ExportTraceServiceRequest request;
    span_message **list; /* [spans_max] */
    struct span_memory spans[];
};

static any_value *add(struct attributes *attributes, const char *key)
{
    assert(attributes->n < ATTRIBUTES_MAX);
    size_t i = attributes->n++;
    opentelemetry__proto__common__v1__any_value__init(&attributes->values[i]);
    opentelemetry__proto__common__v1__key_value__init(&attributes->pairs[i]);
    attributes->pairs[i].key = borrow(key);
    attributes->pairs[i].value = &attributes->values[i];
    attributes->list[i] = &attributes->pairs[i];
    return &attributes->values[i];
}

static void add_text(struct attributes *attributes, const char *key, const char *text)
{
    any_value *value = add(attributes, key);
    value->value_case = OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_STRING_VALUE;
    value->string_value = borrow(text);
}

/* OTLP has no integers above INT64_MAX. */
static void add_number(struct attributes *attributes, const char *key, uint64_t number)
{
    any_value *value = add(attributes, key);
    value->value_case = OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_INT_VALUE;
    value->int_value = number < INT64_MAX ? (int64_t)number : INT64_MAX;
}

static void set_resource(struct otlp_batch *batch, const struct otlp_resource *resource)
{
    struct attributes *attributes = &batch->of_resource;
    add_text(attributes, "service.name", resource->service);
    add_text(attributes, "service.instance.id", resource->instance);
    add_text(attributes, "service.version", resource->version);
    add_text(attributes, "kvferry.role", resource->role);
    opentelemetry__proto__resource__v1__resource__init(&batch->resource);
    batch->resource.n_attributes = attributes->n;
    batch->resource.attributes = attributes->list;
    opentelemetry__proto__common__v1__instrumentation_scope__init(&batch->scope);
    batch->scope.name = borrow(resource->service);
    batch->scope.version = borrow(resource->version);
}

static void set_request(struct otlp_batch *batch)
{
    opentelemetry__proto__trace__v1__scope_spans__init(&batch->scope_spans);
    batch->scope_spans.scope = &batch->scope;
    batch->scope_spans.spans = batch->list;
    batch->scope_list[0] = &batch->scope_spans;
    opentelemetry__proto__trace__v1__resource_spans__init(&batch->resource_spans);
    batch->resource_spans.resource = &batch->resource;
    batch->resource_spans.n_scope_spans = 1;
    batch->resource_spans.scope_spans = batch->scope_list;
    batch->resource_list[0] = &batch->resource_spans;
    opentelemetry__proto__collector__trace__v1__export_trace_service_request__init(&batch->request);
    batch->request.n_resource_spans = 1;
    batch->request.resource_spans = batch->resource_list;
}

enum status otlp_batch_create(const struct otlp_resource *resource, uint32_t spans_max,
                              struct otlp_batch **batch_out)
{
    struct otlp_batch *batch = calloc(1, sizeof *batch + spans_max * sizeof(struct span_memory));
    if (!batch)
        return STATUS_NO_MEMORY;
    batch->spans_max = spans_max;
    batch->list = calloc(spans_max, sizeof(span_message *));
    if (!batch->list) {
        otlp_batch_destroy(batch);
        return STATUS_NO_MEMORY;
    }
    set_resource(batch, resource);
    set_request(batch);
    *batch_out = batch;
    return STATUS_OK;
}

void otlp_batch_destroy(struct otlp_batch *batch)
{
    if (!batch)
        return;
    free(batch->list);
    free(batch);
}

static bool is_root(const struct span *span)
{
    static const uint8_t NONE[SPAN_ID_BYTES];
    return memcmp(span->parent_id, NONE, SPAN_ID_BYTES) == 0;
}

static void set_attributes(struct attributes *attributes, const struct span *span)
{
    attributes->n = 0;
    if (span->request_id[0])
        add_text(attributes, "kvferry.request_id", span->request_id);
    add_text(attributes, "kvferry.status", status_name(span->status));
    for (uint32_t i = 0; i < span->n_attributes; i++) {
        const struct span_attribute *from = &span->attributes[i];
        if (from->text)
            add_text(attributes, from->key, from->text);
        else
            add_number(attributes, from->key, from->number);
    }
}

static void set_span(struct span_memory *memory, struct span *span, uint64_t epoch_ns)
{
    span_message *message = &memory->message;
    opentelemetry__proto__trace__v1__span__init(message);
    message->trace_id = (ProtobufCBinaryData){TRACE_ID_BYTES, span->trace_id};
    message->span_id = (ProtobufCBinaryData){SPAN_ID_BYTES, span->span_id};
    if (!is_root(span))
        message->parent_span_id = (ProtobufCBinaryData){SPAN_ID_BYTES, span->parent_id};
    message->flags = FLAG_SAMPLED;
    message->name = borrow(span->name);
    message->kind = span->is_server
                        ? OPENTELEMETRY__PROTO__TRACE__V1__SPAN__SPAN_KIND__SPAN_KIND_SERVER
                        : OPENTELEMETRY__PROTO__TRACE__V1__SPAN__SPAN_KIND__SPAN_KIND_INTERNAL;
    message->start_time_unix_nano = epoch_ns + span->start_ns;
    message->end_time_unix_nano = epoch_ns + span->end_ns;
    set_attributes(&memory->attributes, span);
    message->n_attributes = memory->attributes.n;
    message->attributes = memory->attributes.list;
    if (span->status == STATUS_OK)
        return;
    opentelemetry__proto__trace__v1__status__init(&memory->status);
    memory->status.code = OPENTELEMETRY__PROTO__TRACE__V1__STATUS__STATUS_CODE__STATUS_CODE_ERROR;
    memory->status.message = borrow(status_text(span->status));
    message->status = &memory->status;
}

const Opentelemetry__Proto__Collector__Trace__V1__ExportTraceServiceRequest *
otlp_batch_encode(struct otlp_batch *batch, struct span *spans, uint32_t n, uint64_t epoch_ns)
{
    assert(n <= batch->spans_max);
    for (uint32_t i = 0; i < n; i++) {
        set_span(&batch->spans[i], &spans[i], epoch_ns);
        batch->list[i] = &batch->spans[i].message;
    }
    batch->scope_spans.n_spans = n;
    return &batch->request;
}
