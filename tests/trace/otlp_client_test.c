/* otlp_client: a batch a second or when it is full, one at a time; what is not taken is counted, and the end of a
 * process sends what there is. The collector is a server of rpc/ here; tests/interop has one that is not ours. */

#include "rpc/server/server.h"
#include "trace/otlp_client.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef Opentelemetry__Proto__Collector__Trace__V1__ExportTraceServiceRequest export_request;
typedef Opentelemetry__Proto__Collector__Trace__V1__ExportTraceServiceResponse export_response;

#define WAIT_S 60

struct bed {
    struct rpc_runtime *server_runtime, *client_runtime;
    struct rpc_server *server;
    struct metrics *metrics;
    struct trace_metrics counters;
    struct tracer *tracer;
    struct otlp_client *client;
    struct trace_place place;
    pthread_mutex_t lock; /* what follows */
    pthread_cond_t changed;
    size_t n_spans;
    enum status answer;
    int64_t n_rejected;
    bool keeps; /* calls are not answered */
    struct rpc_call *kept;
};

static void take(void *arg, struct rpc_call *call, const ProtobufCMessage *message)
{
    struct bed *bed = arg;
    const export_request *request = (const export_request *)message;
    Opentelemetry__Proto__Collector__Trace__V1__ExportTracePartialSuccess partial =
        OPENTELEMETRY__PROTO__COLLECTOR__TRACE__V1__EXPORT_TRACE_PARTIAL_SUCCESS__INIT;
    export_response response =
        OPENTELEMETRY__PROTO__COLLECTOR__TRACE__V1__EXPORT_TRACE_SERVICE_RESPONSE__INIT;
    pthread_mutex_lock(&bed->lock);
    bed->n_spans += request->resource_spans[0]->scope_spans[0]->n_spans;
    enum status answer = bed->answer;
    partial.rejected_spans = bed->n_rejected;
    response.partial_success = bed->n_rejected ? &partial : NULL;
    bool keeps = bed->keeps;
    if (keeps)
        bed->kept = rpc_call_share(call);
    pthread_cond_broadcast(&bed->changed);
    pthread_mutex_unlock(&bed->lock);
    if (keeps)
        return;
    if (answer == STATUS_OK)
        rpc_call_reply(call, &response.base);
    else
        rpc_call_fail_status(call, answer, "not now");
}

static struct rpc_service service_row(struct bed *bed)
{
    static const struct rpc_method METHODS[] = {
        {.path = "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
         .kind = RPC_UNARY,
         .request =
             &opentelemetry__proto__collector__trace__v1__export_trace_service_request__descriptor,
         .response =
             &opentelemetry__proto__collector__trace__v1__export_trace_service_response__descriptor,
         .handler = take},
    };
    return (struct rpc_service){.name = "opentelemetry.proto.collector.trace.v1.TraceService",
                                .methods = METHODS,
                                .n_methods = 1,
                                .arg = bed};
}

static void start(struct bed *bed)
{
    static char endpoint[64];
    struct error error = {""};
    *bed = (struct bed){.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    cr_assert_eq(metrics_create("test", &bed->metrics), STATUS_OK);
    trace_metrics_init(&bed->counters, bed->metrics);
    const struct tracer_options tracer = {
        .ratio = 1, .rate_max = 10, .spans_max = 2 * OTLP_BATCH_SPANS, .metrics = &bed->counters};
    cr_assert_eq(tracer_create(&tracer, &bed->tracer), STATUS_OK);
    tracer_begin(bed->tracer, NULL, 1, &bed->place);
    cr_assert(bed->place.is_recorded);

    cr_assert_eq(rpc_runtime_create("server", &error, &bed->server_runtime), STATUS_OK);
    cr_assert_eq(rpc_runtime_create("client", &error, &bed->client_runtime), STATUS_OK);
    const struct rpc_service service = service_row(bed);
    cr_assert_eq(rpc_server_create(bed->server_runtime, "127.0.0.1:0", &service, 1, NULL, &error,
                                   &bed->server),
                 STATUS_OK, "%s", error.text);
    snprintf(endpoint, sizeof endpoint, "127.0.0.1:%u", rpc_server_port(bed->server));
    const struct otlp_client_options options = {
        .endpoint = endpoint,
        .ca = "",
        .resource = {"kvferry", "here/1", "0.1", "test"},
        .tracer = bed->tracer,
        .metrics = &bed->counters,
        .runtime = bed->client_runtime,
    };
    cr_assert_eq(otlp_client_create(&options, &error, &bed->client), STATUS_OK, "%s", error.text);
}

static void stop(struct bed *bed)
{
    otlp_client_destroy(bed->client);
    rpc_call_release(bed->kept);
    rpc_server_destroy(bed->server);
    rpc_runtime_destroy(bed->client_runtime);
    rpc_runtime_destroy(bed->server_runtime);
    tracer_destroy(bed->tracer);
    metrics_destroy(bed->metrics);
}

static void tell(struct bed *bed, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct span span;
        span_init(&span, "part", 1, 2);
        tracer_tell(bed->tracer, &bed->place, &span);
    }
}

/* The collector has got so many spans. */
static void wait_spans(struct bed *bed, size_t n_spans)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_S;
    pthread_mutex_lock(&bed->lock);
    while (bed->n_spans < n_spans && pthread_cond_timedwait(&bed->changed, &bed->lock, &until) == 0)
        ;
    cr_assert_eq(bed->n_spans, n_spans);
    pthread_mutex_unlock(&bed->lock);
}

static void answer(struct bed *bed, enum status status, int64_t n_rejected)
{
    pthread_mutex_lock(&bed->lock);
    bed->answer = status;
    bed->n_rejected = n_rejected;
    pthread_mutex_unlock(&bed->lock);
}

static void keep_calls(struct bed *bed)
{
    pthread_mutex_lock(&bed->lock);
    bed->keeps = true;
    pthread_mutex_unlock(&bed->lock);
}

/* Until nothing is under way, and sends what there is. */
static void flush(struct bed *bed)
{
    uint64_t now_ns = clock_now_ns();
    otlp_client_flush(bed->client, now_ns, clock_unix_ns(), now_ns + WAIT_S * NS_PER_S);
}

static void expect_counts(const struct bed *bed, uint64_t exported, uint64_t failed)
{
    cr_expect_eq(counter_value(bed->counters.exported), exported);
    cr_expect_eq(counter_value(bed->counters.export_failed), failed);
}

Test(otlp_client, a_batch_leaves_after_a_second_or_when_it_is_full, .timeout = 120)
{
    struct bed bed;
    start(&bed);
    uint64_t now_ns = clock_now_ns();
    otlp_client_look(bed.client, now_ns, clock_unix_ns()); /* nothing is there */
    tell(&bed, 1);
    otlp_client_look(bed.client, now_ns, clock_unix_ns()); /* nothing was sent for a second */
    wait_spans(&bed, 1);
    flush(&bed);
    tell(&bed, OTLP_BATCH_SPANS - 1);
    otlp_client_look(bed.client, now_ns + OTLP_PERIOD_NS - 1, clock_unix_ns());
    cr_expect_eq(tracer_count(bed.tracer), OTLP_BATCH_SPANS - 1, "not due yet");
    tell(&bed, 1);
    otlp_client_look(bed.client, now_ns + OTLP_PERIOD_NS - 1, clock_unix_ns());
    cr_expect_eq(tracer_count(bed.tracer), 0);
    wait_spans(&bed, 1 + OTLP_BATCH_SPANS);
    flush(&bed);
    expect_counts(&bed, 1 + OTLP_BATCH_SPANS, 0);
    stop(&bed);
}

Test(otlp_client, one_is_under_way_and_what_finds_no_room_meanwhile_is_counted, .timeout = 120)
{
    struct bed bed;
    start(&bed);
    keep_calls(&bed);
    uint64_t now_ns = clock_now_ns();
    tell(&bed, 3);
    otlp_client_look(bed.client, now_ns, clock_unix_ns());
    wait_spans(&bed, 3);
    tell(&bed, 2 * OTLP_BATCH_SPANS + 7);
    otlp_client_look(bed.client, now_ns + 2 * OTLP_PERIOD_NS, clock_unix_ns());
    cr_expect_eq(tracer_count(bed.tracer), 2 * OTLP_BATCH_SPANS, "they wait");
    cr_expect_eq(counter_value(bed.counters.queue_full), 7);
    expect_counts(&bed, 0, 0);
    otlp_client_flush(bed.client, now_ns, clock_unix_ns(), now_ns); /* does not wait */
    otlp_client_destroy(bed.client);                                /* gives it up */
    bed.client = NULL;
    expect_counts(&bed, 0, 3);
    stop(&bed);
}

Test(otlp_client, what_a_collector_does_not_take_is_counted_and_not_sent_again, .timeout = 120)
{
    struct bed bed;
    start(&bed);
    answer(&bed, STATUS_QUEUE_FULL, 0);
    tell(&bed, 5);
    flush(&bed);
    expect_counts(&bed, 0, 5);
    answer(&bed, STATUS_OK, 2);
    tell(&bed, 5);
    flush(&bed);
    expect_counts(&bed, 3, 7);
    answer(&bed, STATUS_OK, INT64_MAX); /* a collector that lies */
    tell(&bed, 5);
    flush(&bed);
    expect_counts(&bed, 3, 12);
    answer(&bed, STATUS_OK, -5);
    tell(&bed, 5);
    flush(&bed);
    expect_counts(&bed, 8, 12);
    wait_spans(&bed, 20);
    stop(&bed);
}
