#include "process/process_trace.h"

#include "base/build_info.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/regular_file.h"
#include "process/ports/address.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define CA_BYTES_MAX  (4u << 20)
#define SPANS_MAX     4096u /* about 2 MiB; a batch is sent each second */
#define LAST_FLUSH_NS NS_PER_S

static enum status check_ca(const char *path, struct error *error)
{
    char *text;
    size_t bytes;
    struct error why = {""};
    if (regular_file_read(path, CA_BYTES_MAX, &text, &bytes, &why) != STATUS_OK)
        return error_set(error, STATUS_INVALID_ARGUMENT, "otlp_tls_ca: %s", why.text);
    free(text);
    return STATUS_OK;
}

enum status process_trace_check(const struct process_trace_options *options, struct error *error)
{
    struct address address;
    struct error why = {""};
    if (!options->endpoint[0])
        return STATUS_OK;
    if (address_parse(options->endpoint, &address, &why) != STATUS_OK)
        return error_set(error, STATUS_INVALID_ARGUMENT, "otlp_endpoint: %s", why.text);
    return options->ca[0] ? check_ca(options->ca, error) : STATUS_OK;
}

enum status process_trace_init(struct process_trace *trace,
                               const struct process_trace_options *options, struct metrics *metrics,
                               struct error *error)
{
    assert(!trace->tracer);
    trace_metrics_init(&trace->metrics, metrics);
    if (!options->endpoint[0])
        return STATUS_OK;
    struct tracer_options tracer = {
        .ratio = options->ratio,
        .rate_max = options->rate_max,
        .spans_max = SPANS_MAX,
        .metrics = &trace->metrics,
    };
    TRY(random_secret(&tracer.seed, sizeof tracer.seed, error));
    return tracer_create(&tracer, &trace->tracer);
}

enum status process_trace_connect(struct process_trace *trace,
                                  const struct process_trace_options *options,
                                  const struct process_trace_sender *sender, struct error *error)
{
    assert(!trace->client && sender->name[0] && "one process, one exporter; named by now");
    if (!trace->tracer)
        return STATUS_OK;
    assert(options->endpoint[0] && "a tracer is made for a collector");
    snprintf(trace->instance, sizeof trace->instance, "%.120s/%016" PRIx64, sender->name,
             sender->incarnation);
    const struct otlp_client_options client = {
        .endpoint = options->endpoint,
        .ca = options->ca,
        .resource = {.service = "kvferry",
                     .instance = trace->instance,
                     .version = build_version(),
                     .role = sender->role},
        .tracer = trace->tracer,
        .metrics = &trace->metrics,
        .runtime = sender->runtime,
    };
    TRY(otlp_client_create(&client, error, &trace->client));
    log_event(LOG_INFO, &(struct log_about){.peer = options->endpoint}, "spans are exported",
              LOG_F64("ratio", options->ratio), LOG_U64("rate_max", options->rate_max),
              LOG_TEXT("tls", options->ca[0] ? "on" : "off"));
    return STATUS_OK;
}

void process_trace_look(struct process_trace *trace, uint64_t now_ns)
{
    if (trace->client)
        otlp_client_look(trace->client, now_ns, clock_unix_ns());
}

void process_trace_finish(struct process_trace *trace)
{
    uint64_t now_ns = clock_now_ns();
    assert((trace->tracer || !trace->client) && "what exports has spans of a tracer");
    if (trace->client)
        otlp_client_flush(trace->client, now_ns, clock_unix_ns(), now_ns + LAST_FLUSH_NS);
    otlp_client_destroy(trace->client);
    tracer_destroy(trace->tracer);
    *trace = (struct process_trace){.tracer = NULL};
}
