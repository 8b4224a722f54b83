/* otlp_codec: a batch of spans packs to the message of OTLP, whatever is absent, again and again. */

#include "trace/otlp_codec.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

typedef Opentelemetry__Proto__Collector__Trace__V1__ExportTraceServiceRequest export_request;
typedef Opentelemetry__Proto__Trace__V1__Span span_message;

static const struct otlp_resource RESOURCE = {"kvferry", "here/1", "0.1", "router"};

/* Packed and read back; the caller's to free. */
static export_request *there_and_back(struct otlp_batch *batch, struct span *spans, uint32_t n)
{
    const export_request *request = otlp_batch_encode(batch, spans, n, 1000);
    size_t bytes = protobuf_c_message_get_packed_size(&request->base);
    uint8_t *packed = malloc(bytes);
    cr_assert_eq(protobuf_c_message_pack(&request->base, packed), bytes);
    export_request *back = (export_request *)protobuf_c_message_unpack(request->base.descriptor,
                                                                       NULL, bytes, packed);
    cr_assert(back);
    free(packed);
    return back;
}

static const char *text_of(const span_message *span, const char *key)
{
    for (size_t i = 0; i < span->n_attributes; i++)
        if (strcmp(span->attributes[i]->key, key) == 0)
            return span->attributes[i]->value->string_value;
    return NULL;
}

Test(otlp_codec, a_span_is_what_was_told)
{
    struct otlp_batch *batch;
    struct span spans[2];
    cr_assert_eq(otlp_batch_create(&RESOURCE, 2, &batch), STATUS_OK);
    span_init(&spans[0], "request", 5, 9);
    memset(spans[0].trace_id, 0xaa, TRACE_ID_BYTES);
    memset(spans[0].span_id, 0xbb, SPAN_ID_BYTES);
    spans[0].is_server = true;
    spans[0].status = STATUS_NO_BLOCKS;
    memcpy(spans[0].request_id, "mine", 5);
    span_add_number(&spans[0], "n", UINT64_MAX);
    span_add_text(&spans[0], "why", "because");
    span_add_text(&spans[0], "absent", NULL);
    spans[1] = spans[0];
    spans[1].status = STATUS_OK;
    spans[1].is_server = false;
    memset(spans[1].parent_id, 0xcc, SPAN_ID_BYTES);

    for (int round = 0; round < 2; round++) { /* nothing of the last one stays */
        export_request *request = there_and_back(batch, spans, 2);
        cr_assert_eq(request->n_resource_spans, 1);
        const Opentelemetry__Proto__Trace__V1__ResourceSpans *of = request->resource_spans[0];
        cr_assert_eq(of->resource->n_attributes, 4);
        cr_expect_str_eq(of->resource->attributes[0]->value->string_value, "kvferry");
        cr_assert_eq(of->scope_spans[0]->n_spans, 2);
        const span_message *first = of->scope_spans[0]->spans[0],
                           *second = of->scope_spans[0]->spans[1];
        cr_expect_eq(first->trace_id.len, 16);
        cr_expect_eq(first->parent_span_id.len, 0, "a root");
        cr_expect_eq(first->start_time_unix_nano, 1005);
        cr_expect_eq(first->end_time_unix_nano, 1009);
        cr_expect_eq(first->kind, 2);
        cr_expect_eq(first->status->code, 2);
        cr_expect_str_eq(first->status->message, status_text(STATUS_NO_BLOCKS));
        cr_expect_str_eq(text_of(first, "kvferry.request_id"), "mine");
        cr_expect_str_eq(text_of(first, "kvferry.status"), "NO_BLOCKS");
        cr_expect_str_eq(text_of(first, "why"), "because");
        cr_expect_null(text_of(first, "absent"));
        cr_expect_eq(first->attributes[2]->value->int_value, INT64_MAX);
        cr_expect_eq(second->parent_span_id.len, 8);
        cr_expect_eq(second->kind, 1);
        cr_expect_null(second->status);
        protobuf_c_message_free_unpacked(&request->base, NULL);
    }
    otlp_batch_destroy(batch);
}

Test(otlp_codec, every_attribute_has_room)
{
    struct otlp_batch *batch;
    struct span span;
    cr_assert_eq(otlp_batch_create(&RESOURCE, 1, &batch), STATUS_OK);
    span_init(&span, "request", 5, 9);
    memcpy(span.request_id, "mine", 5);
    for (uint32_t i = 0; i < SPAN_ATTRIBUTES_MAX; i++)
        span_add_number(&span, "n", i);
    export_request *request = there_and_back(batch, &span, 1);
    cr_expect_eq(request->resource_spans[0]->scope_spans[0]->spans[0]->n_attributes,
                 SPAN_ATTRIBUTES_MAX + 2);
    protobuf_c_message_free_unpacked(&request->base, NULL);
    otlp_batch_destroy(batch);
}
