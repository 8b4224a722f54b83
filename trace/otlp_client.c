#include "trace/otlp_client.h"

#include "base/clock.h"
#include "base/cond.h"
#include "base/log/log.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>

#define NO_KEEPALIVE_MS UINT32_MAX /* collectors disconnect clients that ping often */
#define REPLY_BYTES_MAX (64u << 10)

struct otlp_client {
    struct otlp_client_options options;
    struct rpc_client_tls tls;
    struct rpc_client *rpc;
    struct rpc_channel *channel;
    struct otlp_batch *batch;
    struct span *spans; /* [OTLP_BATCH_SPANS] */
    uint64_t sent_ns;   /* when the last batch was sent */
    bool is_failing;    /* used by the queue thread, as n_rejected */
    uint32_t n_rejected;
    pthread_mutex_t lock; /* guards the members below */
    pthread_cond_t ended;
    bool is_in_flight;
    uint32_t n_in_flight; /* spans */
};

static enum status open_channel(struct otlp_client *client, struct error *error)
{
    struct rpc_client_options rpc;
    rpc_client_options_init(&rpc);
    rpc.message_bytes_max = REPLY_BYTES_MAX;
    rpc.keepalive_time_ms = NO_KEEPALIVE_MS;
    client->tls = (struct rpc_client_tls){
        .ca = client->options.ca, .certificate = "", .key = "", .cluster = NULL};
    if (client->options.ca[0])
        rpc.tls = &client->tls;
    enum status status = rpc_client_create(client->options.runtime, &rpc, &client->rpc);
    if (status == STATUS_OK)
        status = rpc_channel_open(client->rpc, client->options.endpoint, &client->channel);
    if (status != STATUS_OK)
        return error_set(error, status, "otlp_endpoint \"%.80s\": no channel to it%s%.120s",
                         client->options.endpoint, client->options.ca[0] ? "; otlp_tls_ca is " : "",
                         client->options.ca);
    return STATUS_OK;
}

enum status otlp_client_create(const struct otlp_client_options *options, struct error *error,
                               struct otlp_client **client_out)
{
    struct otlp_client *client = calloc(1, sizeof *client);
    if (!client)
        return STATUS_NO_MEMORY;
    client->options = *options;
    pthread_mutex_init(&client->lock, NULL);
    cond_init(&client->ended);
    client->spans = calloc(OTLP_BATCH_SPANS, sizeof *client->spans);
    enum status status = client->spans ? STATUS_OK : STATUS_NO_MEMORY;
    if (status == STATUS_OK)
        status = otlp_batch_create(&options->resource, OTLP_BATCH_SPANS, &client->batch);
    if (status == STATUS_OK)
        status = open_channel(client, error);
    if (status != STATUS_OK) {
        otlp_client_destroy(client);
        return status;
    }
    *client_out = client;
    return STATUS_OK;
}

void otlp_client_destroy(struct otlp_client *client)
{
    if (!client)
        return;
    rpc_channel_close(client->channel);
    rpc_client_destroy(client->rpc); /* ends the open call */
    otlp_batch_destroy(client->batch);
    pthread_cond_destroy(&client->ended);
    pthread_mutex_destroy(&client->lock);
    free(client->spans);
    free(client);
}

/* ---- the queue thread ---- */

static void on_message(void *arg, const ProtobufCMessage *message)
{
    struct otlp_client *client = arg;
    const Opentelemetry__Proto__Collector__Trace__V1__ExportTraceServiceResponse *response =
        (const Opentelemetry__Proto__Collector__Trace__V1__ExportTraceServiceResponse *)message;
    int64_t n = response->partial_success ? response->partial_success->rejected_spans : 0;
    client->n_rejected = n > 0 ? (uint32_t)(n < INT32_MAX ? n : INT32_MAX) : 0;
}

static void count(struct otlp_client *client, uint32_t n, enum status status)
{
    uint32_t n_lost = status != STATUS_OK ? n : client->n_rejected;
    if (n_lost > n) /* the collector's number is limited to n */
        n_lost = n;
    counter_add(client->options.metrics->export_failed, n_lost);
    counter_add(client->options.metrics->exported, n - n_lost);
}

static void tell_change(struct otlp_client *client, enum status status, const char *sentence)
{
    bool is_failing = status != STATUS_OK;
    if (is_failing && !client->is_failing)
        log_event(LOG_WARN, &(struct log_about){.peer = client->options.endpoint},
                  "the collector does not accept spans: they are dropped and counted",
                  LOG_TEXT("status", status_name(status)), LOG_TEXT("why", sentence));
    else if (!is_failing && client->is_failing)
        log_event(LOG_INFO, &(struct log_about){.peer = client->options.endpoint},
                  "the collector accepts spans again", LOG_TEXT("status", status_name(status)));
    client->is_failing = is_failing;
}

/* Ends a batch. */
static void end_batch(struct otlp_client *client)
{
    pthread_mutex_lock(&client->lock);
    client->is_in_flight = false;
    pthread_cond_signal(&client->ended);
    pthread_mutex_unlock(&client->lock);
}

static void on_end(void *arg, const struct rpc_error *error)
{
    struct otlp_client *client = arg;
    count(client, client->n_in_flight, error->status);
    tell_change(client, error->status, error->message);
    end_batch(client);
}

/* ---- the owner's thread ---- */

static bool is_busy(struct otlp_client *client)
{
    pthread_mutex_lock(&client->lock);
    bool is_busy = client->is_in_flight;
    pthread_mutex_unlock(&client->lock);
    return is_busy;
}

static void begin_batch(struct otlp_client *client, uint32_t n)
{
    pthread_mutex_lock(&client->lock);
    client->is_in_flight = true;
    client->n_in_flight = n;
    client->n_rejected = 0;
    pthread_mutex_unlock(&client->lock);
}

static void send_batch(struct otlp_client *client, uint64_t now_ns, uint64_t unix_ns)
{
    uint32_t n = tracer_take(client->options.tracer, client->spans, OTLP_BATCH_SPANS);
    if (n == 0)
        return;
    struct rpc_request request = {
        .path = "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
        .message = &otlp_batch_encode(client->batch, client->spans, n, unix_ns - now_ns)->base,
        .response =
            &opentelemetry__proto__collector__trace__v1__export_trace_service_response__descriptor,
        .deadline_ns = now_ns + OTLP_LIMIT_NS,
        .on_message = on_message,
        .on_end = on_end,
        .arg = client,
    };
    client->sent_ns = now_ns;
    begin_batch(client, n);
    if (rpc_channel_start(client->channel, &request, NULL) == STATUS_OK)
        return;
    count(client, n, STATUS_NO_MEMORY);
    end_batch(client);
}

void otlp_client_look(struct otlp_client *client, uint64_t now_ns, uint64_t unix_ns)
{
    bool is_due = now_ns - client->sent_ns >= OTLP_PERIOD_NS ||
                  tracer_count(client->options.tracer) >= OTLP_BATCH_SPANS;
    if (is_due && !is_busy(client))
        send_batch(client, now_ns, unix_ns);
}

/* False: the time is over. */
static bool wait_for_end(struct otlp_client *client, uint64_t until_ns)
{
    bool is_in_time = true;
    pthread_mutex_lock(&client->lock);
    while (client->is_in_flight && is_in_time)
        is_in_time = cond_wait_until(&client->ended, &client->lock, until_ns);
    bool is_free = !client->is_in_flight;
    pthread_mutex_unlock(&client->lock);
    return is_free;
}

void otlp_client_flush(struct otlp_client *client, uint64_t now_ns, uint64_t unix_ns,
                       uint64_t until_ns)
{
    while (wait_for_end(client, until_ns) && tracer_count(client->options.tracer) > 0)
        send_batch(client, now_ns, unix_ns);
}
