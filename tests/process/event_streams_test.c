/* event_streams: each reader gets all events in order, of whatever pace; a caller has its share of the streams, and a drain ends them. */
#include "base/clock.h"
#include "process/event_streams.h"
#include "proto/kvferry/internal/v1/kv_events.pb-c.h"
#include "rpc/client/client.h"
#include "rpc/server/server.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum {
    SPANS = 256,
    EVENTS = 1 << 12,
    BATCH = 64,
    N_CHANGES = 100000,
    WAIT_S = 60,
    TRIES_MAX = 100000
};

typedef Kvferry__Internal__V1__WatchResponse response_t;

struct bed {
    struct rpc_runtime *server_runtime, *client_runtime;
    struct rpc_server *server;
    struct rpc_client *client;
    struct rpc_channel *channel;
    struct span_events *spans;
    struct event_streams *streams;
    /* Of the streams' thread. */
    response_t response;
    uint64_t hashes[2 * BATCH];
    Kvferry__Internal__V1__KvEventKind kinds[BATCH];
};

/* What a client has read. */
struct reading {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool has[SPANS];
    uint32_t n_messages, n_wrong;
    uint64_t number;
    bool has_ended;
    enum status end;
    struct rpc_client_call *call;
};

static const ProtobufCMessage *next(void *arg, struct event_stream *stream, uint64_t now_ns)
{
    struct bed *bed = arg;
    struct span_event event;
    uint32_t n = 0;
    (void)now_ns;
    kvferry__internal__v1__watch_response__init(&bed->response);
    bed->response.kinds = bed->kinds;
    bed->response.hashes = bed->hashes;
    while (n < BATCH && span_reader_next(stream->reader, &event)) {
        bed->kinds[n] = (Kvferry__Internal__V1__KvEventKind)event.kind;
        bed->hashes[n++] = event.hash.lo;
    }
    bed->response.n_kinds = bed->response.n_hashes = n;
    bed->response.sequence_number = span_reader_number(stream->reader);
    bed->response.block_tokens = span_reader_snapshot_left(stream->reader);
    stream->has_more = n == BATCH;
    return n > 0 || stream->is_first ? &bed->response.base : NULL;
}

static void watch(void *arg, struct rpc_call *call, const ProtobufCMessage *request)
{
    const Kvferry__Internal__V1__WatchRequest *asked = (const Kvferry__Internal__V1__WatchRequest *)
        request;
    event_streams_open(((struct bed *)arg)->streams, call, asked->after > 0, asked->after, NULL);
}

static const struct rpc_method METHODS[] = {
    {.path = "/test/Watch",
     .kind = RPC_SERVER_STREAM,
     .request = &kvferry__internal__v1__watch_request__descriptor,
     .response = &kvferry__internal__v1__watch_response__descriptor,
     .idles = true,
     .handler = watch}};

static void start(struct bed *bed)
{
    const struct rpc_service service = {
        .name = "test", .methods = METHODS, .n_methods = 1, .arg = bed};
    struct rpc_server_options options;
    struct error error = {""};
    char address[32];
    memset(bed, 0, sizeof *bed);
    rpc_server_options_init(&options);
    cr_assert_eq(span_events_create(&(struct span_events_options){.spans_max = SPANS,
                                                                  .events_max = EVENTS,
                                                                  .block_tokens = 1},
                                    &bed->spans),
                 STATUS_OK);
    cr_assert_eq(event_streams_create(&(struct event_streams_options){.thread_name = "events",
                                                                      .events = bed->spans,
                                                                      .streams_max = 4,
                                                                      .caller_max = 3,
                                                                      .period_ns = NS_PER_MS,
                                                                      .next = next,
                                                                      .arg = bed},
                                      &bed->streams),
                 STATUS_OK);
    cr_assert_eq(rpc_runtime_create("server", NULL, &bed->server_runtime), STATUS_OK);
    cr_assert_eq(rpc_server_create(bed->server_runtime, "127.0.0.1:0", &service, 1, &options,
                                   &error, &bed->server),
                 STATUS_OK, "%s", error.text);
    snprintf(address, sizeof address, "127.0.0.1:%u", rpc_server_port(bed->server));
    cr_assert_eq(rpc_runtime_create("client", NULL, &bed->client_runtime), STATUS_OK);
    cr_assert_eq(rpc_client_create(bed->client_runtime, NULL, &bed->client), STATUS_OK);
    cr_assert_eq(rpc_channel_open(bed->client, address, &bed->channel), STATUS_OK);
}

static void stop(struct bed *bed)
{
    rpc_channel_close(bed->channel);
    rpc_client_destroy(bed->client);
    rpc_runtime_destroy(bed->client_runtime);
    rpc_server_destroy(bed->server);
    rpc_runtime_destroy(bed->server_runtime);
    event_streams_destroy(bed->streams);
    span_events_destroy(bed->spans);
}

static void on_message(void *arg, const ProtobufCMessage *message)
{
    struct reading *reading = arg;
    const response_t *response = (const response_t *)message;
    pthread_mutex_lock(&reading->lock);
    reading->n_messages++;
    if (response->block_tokens == 0) /* else more of a snapshot comes */
        reading->number = response->sequence_number;
    for (size_t i = 0; i < response->n_kinds; i++) {
        bool *has = &reading->has[response->hashes[i] % SPANS];
        if (response->kinds[i] == (Kvferry__Internal__V1__KvEventKind)SPAN_CLEARED)
            memset(reading->has, 0, sizeof reading->has);
        if (response->kinds[i] == (Kvferry__Internal__V1__KvEventKind)SPAN_REMOVED)
            *has = false;
        if (response->kinds[i] != (Kvferry__Internal__V1__KvEventKind)SPAN_STORED)
            continue;
        reading->n_wrong += *has;
        *has = true;
    }
    pthread_cond_broadcast(&reading->changed);
    pthread_mutex_unlock(&reading->lock);
}

static void on_end(void *arg, const struct rpc_error *error)
{
    struct reading *reading = arg;
    pthread_mutex_lock(&reading->lock);
    reading->has_ended = true;
    reading->end = error->status;
    pthread_cond_broadcast(&reading->changed);
    pthread_mutex_unlock(&reading->lock);
}

static void begin(struct bed *bed, struct reading *reading)
{
    static const Kvferry__Internal__V1__WatchRequest MESSAGE =
        KVFERRY__INTERNAL__V1__WATCH_REQUEST__INIT;
    const struct rpc_request request = {
        .path = METHODS->path,
        .message = &MESSAGE.base,
        .response = &kvferry__internal__v1__watch_response__descriptor,
        .is_stream = true,
        .deadline_ns = DEADLINE_NONE,
        .on_message = on_message,
        .on_end = on_end,
        .arg = reading,
    };
    *reading = (struct reading){.n_messages = 0};
    pthread_mutex_init(&reading->lock, NULL);
    pthread_cond_init(&reading->changed, NULL);
    cr_assert_eq(rpc_channel_start(bed->channel, &request, &reading->call), STATUS_OK);
}

/* Until it has a message of that number, or has ended. */
static void wait_for(struct reading *reading, uint64_t number)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_S;
    pthread_mutex_lock(&reading->lock);
    int late = 0;
    while (!late && !reading->has_ended && (reading->n_messages == 0 || reading->number < number))
        late = pthread_cond_timedwait(&reading->changed, &reading->lock, &until);
    pthread_mutex_unlock(&reading->lock);
    cr_assert_eq(late, 0, "number %lu", (unsigned long)reading->number);
}

static bool has_ended(struct reading *reading)
{
    pthread_mutex_lock(&reading->lock);
    const bool has_ended = reading->has_ended;
    pthread_mutex_unlock(&reading->lock);
    return has_ended;
}

static void wait_end(struct reading *reading)
{
    wait_for(reading, UINT64_MAX);
    cr_assert(has_ended(reading));
}

static void finish(struct reading *reading)
{
    rpc_client_call_cancel(reading->call);
    wait_end(reading);
    rpc_client_call_release(reading->call);
}

/* The name of what is at a span is the span's number, in a round of its own. */
static void change(struct bed *bed, bool has[SPANS], uint32_t i)
{
    const uint32_t span = (i * 2654435761u >> 8) % SPANS;
    const uint32_t token = i;
    if (has[span])
        span_events_remove(bed->spans, span);
    else
        span_events_store(bed->spans, span, (struct prefix_hash){span, i}, (struct prefix_hash){0},
                          &token, 1);
    has[span] = !has[span];
}

Test(event_streams, readers_get_all_that_happens_however_fast)
{
    static struct bed bed;
    static struct reading readings[2];
    static bool has[SPANS];
    start(&bed);
    begin(&bed, &readings[0]);
    wait_for(&readings[0], 0);
    for (uint32_t i = 0; i < N_CHANGES; i++) {
        change(&bed, has, i);
        if (i == N_CHANGES / 2)
            begin(&bed, &readings[1]); /* begins amid all this */
    }
    for (int i = 0; i < 2; i++) {
        wait_for(&readings[i], N_CHANGES);
        cr_assert_eq(readings[i].n_wrong, 0);
        cr_assert_arr_eq(readings[i].has, has, sizeof has);
        cr_assert_gt(readings[i].n_messages, 1);
    }
    cr_assert_eq(event_streams_count(bed.streams), 2);
    for (int i = 0; i < 2; i++)
        finish(&readings[i]);
    stop(&bed);
}

Test(event_streams, a_caller_has_its_share_and_gets_it_back)
{
    static struct bed bed;
    static struct reading readings[4];
    start(&bed);
    for (int i = 0; i < 3; i++) {
        begin(&bed, &readings[i]);
        wait_for(&readings[i], 0);
    }
    begin(&bed, &readings[3]);
    wait_end(&readings[3]);
    cr_assert_eq(readings[3].end, STATUS_SHARE_FULL);
    rpc_client_call_release(readings[3].call);
    finish(&readings[0]);
    for (int i = 0; i < TRIES_MAX; i++) { /* until the server knows that it has left */
        begin(&bed, &readings[0]);
        wait_for(&readings[0], 0);
        if (!has_ended(&readings[0]))
            break;
        rpc_client_call_release(readings[0].call);
    }
    cr_assert(!has_ended(&readings[0]));
    for (int i = 0; i < 3; i++)
        finish(&readings[i]);
    stop(&bed);
}

Test(event_streams, a_drain_ends_them)
{
    static struct bed bed;
    static struct reading reading;
    start(&bed);
    begin(&bed, &reading);
    wait_for(&reading, 0);
    rpc_server_drain_start(bed.server);
    wait_end(&reading);
    cr_assert_eq(reading.end, STATUS_DRAINING);
    rpc_client_call_release(reading.call);
    stop(&bed);
}
