#include "worker_common/kv_event_service.h"

#include "base/clock.h"
#include "proto/kvferry/internal/v1/kv_events.pb-c.h"

#include <assert.h>
#include <stdlib.h>

#define PERIOD_NS (10 * NS_PER_MS)

/* A message that is being made. */
struct kv_event_batch {
    Kvferry__Internal__V1__WatchResponse message;
    Kvferry__Internal__V1__KvEventKind kinds[KV_EVENT_BATCH_EVENTS];
    uint64_t hashes[2 * KV_EVENT_BATCH_EVENTS];
    uint64_t parents[2 * KV_EVENT_BATCH_EVENTS];
    uint32_t tokens_max;
    uint32_t token_ids[]; /* [tokens_max] */
};

static void add_hash(uint64_t *words, size_t *n, struct prefix_hash hash)
{
    words[(*n)++] = hash.lo;
    words[(*n)++] = hash.hi;
}

static void add_stored(struct kv_event_batch *batch, const struct span_event *event)
{
    Kvferry__Internal__V1__WatchResponse *message = &batch->message;
    add_hash(batch->parents, &message->n_parent_hashes, event->parent);
    for (uint32_t i = 0; i < event->n_tokens; i++)
        batch->token_ids[message->n_token_ids++] = event->token_ids[i];
}

static void add(struct kv_event_batch *batch, const struct span_event *event)
{
    Kvferry__Internal__V1__WatchResponse *message = &batch->message;
    Kvferry__Internal__V1__KvEventKind kind =
        KVFERRY__INTERNAL__V1__KV_EVENT_KIND__KV_EVENT_KIND_CLEARED;
    if (event->kind == SPAN_REMOVED)
        kind = KVFERRY__INTERNAL__V1__KV_EVENT_KIND__KV_EVENT_KIND_REMOVED;
    else if (event->kind == SPAN_STORED)
        kind = event->n_tokens > 0
                   ? KVFERRY__INTERNAL__V1__KV_EVENT_KIND__KV_EVENT_KIND_STORED
                   : KVFERRY__INTERNAL__V1__KV_EVENT_KIND__KV_EVENT_KIND_STORED_UNTOLD;
    batch->kinds[message->n_kinds++] = kind;
    if (event->kind == SPAN_CLEARED)
        return;
    add_hash(batch->hashes, &message->n_hashes, event->hash);
    if (event->kind == SPAN_STORED)
        add_stored(batch, event);
}

static void begin(const struct kv_event_service *service, struct kv_event_batch *batch)
{
    Kvferry__Internal__V1__WatchResponse *message = &batch->message;
    kvferry__internal__v1__watch_response__init(message);
    message->kinds = batch->kinds;
    message->hashes = batch->hashes;
    message->parent_hashes = batch->parents;
    message->token_ids = batch->token_ids;
    message->time_unix_ms = clock_unix_ms();
    message->incarnation = service->process->incarnation;
    message->block_tokens = span_events_block_tokens(service->spans);
}

static const ProtobufCMessage *next(void *arg, struct event_stream *stream, uint64_t now_ns)
{
    const struct kv_event_service *service = arg;
    struct kv_event_batch *batch = service->batch;
    Kvferry__Internal__V1__WatchResponse *message = &batch->message;
    struct span_event event;
    uint32_t n_looked = 0;
    (void)now_ns;
    begin(service, batch);
    while (n_looked < KV_EVENT_BATCH_EVENTS &&
           message->n_token_ids + message->block_tokens <= batch->tokens_max &&
           span_reader_next(stream->reader, &event)) {
        n_looked++;
        if (event.kind != SPAN_GONE)
            add(batch, &event);
    }
    stream->has_more = span_reader_snapshot_left(stream->reader) > 0 ||
                       span_reader_number(stream->reader) != span_events_last(service->spans);
    message->sequence_number = span_reader_number(stream->reader);
    return n_looked > 0 || stream->is_first ? &message->base : NULL;
}

static void watch(void *arg, struct rpc_call *call, const ProtobufCMessage *message)
{
    struct kv_event_service *service = arg;
    const Kvferry__Internal__V1__WatchRequest
        *request = (const Kvferry__Internal__V1__WatchRequest *)message;
    const enum status status = process_refuses(service->process);
    if (status != STATUS_OK)
        rpc_call_fail_status(call, status, "%s", status_text(status));
    else if (!service->streams)
        rpc_call_fail_status(call, STATUS_UNSUPPORTED,
                             "this worker tells no events: kv_events_max is 0, or it has no prefix "
                             "cache");
    else
        event_streams_open(service->streams, call,
                           request->after > 0 &&
                               request->incarnation == service->process->incarnation,
                           request->after, NULL);
}

struct rpc_service kv_event_service_row(struct kv_event_service *service)
{
    static const struct rpc_method METHODS[] = {
        {.path = "/kvferry.internal.v1.KvEventService/Watch",
         .kind = RPC_SERVER_STREAM,
         .request = &kvferry__internal__v1__watch_request__descriptor,
         .response = &kvferry__internal__v1__watch_response__descriptor,
         .request_bytes_max = 4096,
         .idles = true,
         .roles = TLS_ROLE_BIT(ROUTER) | TLS_ROLE_BIT(OPERATOR),
         .handler = watch},
    };
    assert(service->process);
    return (struct rpc_service){.name = "kvferry.internal.v1.KvEventService",
                                .methods = METHODS,
                                .n_methods = sizeof METHODS / sizeof *METHODS,
                                .arg = service};
}

enum status kv_event_service_start(struct kv_event_service *service,
                                   const struct span_events *spans, uint32_t streams_max,
                                   const struct worker_metrics *metrics)
{
    if (!spans)
        return STATUS_OK;
    const uint32_t block_tokens = span_events_block_tokens(spans);
    const uint32_t tokens_max = block_tokens > KV_EVENT_BATCH_TOKENS ? block_tokens
                                                                     : KV_EVENT_BATCH_TOKENS;
    service->spans = spans;
    service->n_events = metrics->kv_events;
    service->batch = malloc(sizeof *service->batch + tokens_max * sizeof(uint32_t));
    if (!service->batch)
        return STATUS_NO_MEMORY;
    service->batch->tokens_max = tokens_max;
    const struct event_streams_options options = {
        .thread_name = "kv-events",
        .events = spans,
        .streams_max = streams_max,
        .caller_max = streams_max < 4 ? 1 : streams_max / 4,
        .period_ns = PERIOD_NS,
        .n_streams = metrics->kv_event_streams,
        .n_overruns = metrics->kv_event_overruns,
        .next = next,
        .arg = service,
    };
    return event_streams_create(&options, &service->streams);
}

void kv_event_service_stop(struct kv_event_service *service)
{
    event_streams_destroy(service->streams);
    free(service->batch);
    service->streams = NULL;
    service->batch = NULL;
    service->spans = NULL;
}

void kv_event_service_tell(struct kv_event_service *service)
{
    if (service->spans)
        counter_follow(service->n_events, span_events_last(service->spans), &service->n_told);
}
