#include "process/process_ports.h"

#include "base/clock.h"
#include "process/last_words.h"
#include "process/ports/advertised_host.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- pages of the metrics port ---- */

static void make_metrics(void *arg, struct http_answer *answer)
{
    const struct process *process = arg;
    char *text;
    size_t bytes;
    if (metrics_text(process->metrics, &text, &bytes) != STATUS_OK) {
        http_answer_text(answer, 503, "out of memory\n");
        return;
    }
    http_answer_set(answer, 200, "text/plain; version=0.0.4; charset=utf-8", text, bytes);
    free(text);
}

static void make_liveness(void *arg, struct http_answer *answer)
{
    const struct process *process = arg;
    if (atomic_load(&process->is_live))
        http_answer_text(answer, 200, "ok\n");
    else
        http_answer_text(answer, 503, "not healthy\n");
}

static void make_readiness(void *arg, struct http_answer *answer)
{
    const struct process *process = arg;
    if (atomic_load(&process->is_ready) && !process_is_leaving(process))
        http_answer_text(answer, 200, "ok\n");
    else
        http_answer_text(answer, 503, "not ready\n");
}

/* Of a role without a page of its own. */
static void make_index(void *arg, struct http_answer *answer)
{
    const struct process *process = arg;
    char text[160];
    bool is_router = process->options.role == KVFERRY__INTERNAL__V1__ROLE__ROLE_ROUTER;
    snprintf(text, sizeof text, "kvferry %s\n\n/metrics\n/healthz\n/readyz\n\n%s",
             role_name(process->options.role),
             is_router ? "There is no page for people: page is no.\n"
                       : "The page for people is / of the router's metrics port.\n");
    http_answer_text(answer, 200, text);
}

static void add_page(struct process *process, const struct http_page *page)
{
    assert(process->n_pages < PROCESS_PAGES_MAX);
    process->pages[process->n_pages++] = *page;
}

static void add_pages(struct process *process)
{
    add_page(process, &(struct http_page){"/metrics", make_metrics, process});
    add_page(process, &(struct http_page){"/healthz", make_liveness, process});
    add_page(process, &(struct http_page){"/readyz", make_readiness, process});
    for (size_t i = 0; i < process->options.n_pages; i++)
        add_page(process, &process->options.pages[i]);
    if (process->options.n_pages == 0)
        add_page(process, &(struct http_page){"/", make_index, process});
}

struct gauge *process_metrics_ready(struct metrics *metrics)
{
    return metrics_gauge(metrics, "kvferry_ready", "",
                         "1 if this process is ready for requests, as /readyz says; else 0.");
}

enum status process_ports_open_metrics(struct process *process, struct error *error)
{
    TRY(metrics_create(role_name(process->options.role), &process->metrics));
    relay_metrics_init(&process->relay_metrics, process->metrics);
    call_counters_init(&process->call_counters, process->metrics);
    process->ready = process_metrics_ready(process->metrics);
    if (!process->options.metrics_address[0])
        return STATUS_OK;
    add_pages(process);
    struct address address;
    char text[ADDRESS_TEXT_MAX];
    TRY(address_parse_listen(process->options.metrics_address, &address, error));
    address_format(&address, text);
    struct http_server_options options = {
        .address = text,
        .pages = process->pages,
        .n_pages = process->n_pages,
        .feed = process->options.feed,
    };
    TRY(http_server_open(&options, &process->http, error));
    address.port = http_server_port(process->http);
    assert(address.port != 0 && "others are told the port that it is really at");
    TRY(advertised_host_apply(process->options.advertise_address, &address, error));
    address_format(&address, process->metrics_address);
    return STATUS_OK;
}

/* ---- servers ---- */

static struct tls_files *tls_of(const struct process *process, enum process_port port)
{
    switch (port) {
    case PORT_GRPC:
        return process->tls.grpc;
    case PORT_CONTROL:
        return process->tls.peer;
    case PORT_ENGINE:
        return NULL; /* gateways speak none */
    default:
        return process->tls.health;
    }
}

static void server_options(struct process *process, enum process_port port,
                           struct rpc_server_options *out)
{
    const struct process_options *from = &process->options;
    rpc_server_options_init(out);
    out->calls_max = from->calls_max;
    out->message_bytes_max = (uint32_t)from->message_bytes_max;
    out->header_bytes_max = (uint32_t)from->header_bytes_max;
    out->streams_per_connection_max = from->streams_per_connection_max;
    out->call_buffer_bytes_max = (uint32_t)from->stream_buffer_bytes_max;
    out->slow_reader_ns = from->slow_reader_ms * NS_PER_MS;
    out->default_deadline_ns = from->default_deadline_ms * NS_PER_MS;
    out->keepalive_time_ms = (uint32_t)from->keepalive_ms;
    out->keepalive_timeout_ms = (uint32_t)from->keepalive_timeout_ms;
    out->connection_age_ms = (uint32_t)from->connection_age_ms;
    out->relay = from->relay;
    out->relay_metrics = &process->relay_metrics;
    out->call_counters = &process->call_counters;
    if (port == PORT_CONTROL)
        relay_limits_trust_addresses(&out->relay);
    out->reflection = port != PORT_CONTROL; /* no proof covers its stream */
    out->auth = process->auth.auth;
    assert(out->auth && "inner services ask their callers for a proof");
    out->tls = tls_of(process, port);
    if (port == PORT_CONTROL && out->tls)
        out->cluster = from->tls.cluster_name;
    out->health = port == PORT_HEALTH ? NULL : process->health;
    out->doorkeeper = port == PORT_GRPC ? process->options.doorkeeper : NULL;
}

static const char *wanted_address(const struct process *process, enum process_port port)
{
    switch (port) {
    case PORT_GRPC:
        return process->options.grpc_address;
    case PORT_CONTROL:
        return process->options.control_address;
    case PORT_ENGINE:
        return process->options.engine_address;
    default:
        return process->options.health_address;
    }
}

/* If the control port is at a loopback address, the host may have more such processes: the name has the port, too. */
static void name_by_host(struct process *process, const struct address *control)
{
    char host[64] = "";
    char bound[ADDRESS_TEXT_MAX];
    address_format(control, bound);
    if (gethostname(host, sizeof host - 1) != 0 || !host[0])
        snprintf(process->name, sizeof process->name, "%.100s", bound);
    else if (address_is_loopback(control) && !control->is_unix)
        snprintf(process->name, sizeof process->name, "%s:%u", host, control->port);
    else
        snprintf(process->name, sizeof process->name, "%s", host);
    assert(process->name[0] && "spans and the states of others name it");
    log_set_name(process->name);
}

static enum status connect_trace(struct process *process, struct error *error)
{
    const struct process_trace_sender sender = {.role = role_name(process->options.role),
                                                .name = process->name,
                                                .incarnation = process->incarnation,
                                                .runtime = process->runtime};
    return process_trace_connect(&process->trace, &process->options.trace, &sender, error);
}

static enum status open_port(struct process *process, enum process_port port,
                             const struct rpc_service *services, size_t n_services,
                             struct error *error)
{
    assert(n_services < PROCESS_SERVICES_MAX && !process->servers[port]);
    assert(!process->has_loaded && "ports open before loading, so that health answers");
    assert(process->health && process->runtime);
    struct rpc_service all[PROCESS_SERVICES_MAX];
    if (n_services > 0)
        memcpy(all, services, n_services * sizeof *services);
    all[n_services] = rpc_health_service(process->health);
    for (size_t i = 0; port == PORT_CONTROL && i <= n_services; i++)
        all[i].is_inner = true;

    struct rpc_server_options options;
    server_options(process, port, &options);
    struct address address;
    TRY(address_parse_listen(wanted_address(process, port), &address, error));
    char text[ADDRESS_TEXT_MAX];
    address_format(&address, text);
    TRY(rpc_server_create(process->runtime, text, all, n_services + 1, &options, error,
                          &process->servers[port]));

    if (!address.is_unix)
        address.port = rpc_server_port(process->servers[port]);
    assert(address.is_unix || address.port != 0);
    TRY(self_check_add_port(process->self_check, &address, error));
    if (port == PORT_CONTROL && !process->name[0])
        name_by_host(process, &address);
    if (port == PORT_CONTROL)
        TRY(connect_trace(process, error));
    TRY(advertised_host_apply(process->options.advertise_address, &address, error));
    address_format(&address, process->addresses[port]);
    for (size_t i = 0; i < n_services; i++) {
        assert(process->n_service_names < PROCESS_PORTS * PROCESS_SERVICES_MAX);
        process->service_names[process->n_service_names++] = services[i].name;
        rpc_health_set(process->health, services[i].name, false);
    }
    return STATUS_OK;
}

enum status process_listen(struct process *process, enum process_port port,
                           const struct rpc_service *services, size_t n_services,
                           struct error *error)
{
    last_words_limit(PROCESS_GRPC_START_S); /* stays after a failure: freeing may hang, too */
    TRY(open_port(process, port, services, n_services, error));
    last_words_limit(0);
    return STATUS_OK;
}

enum status process_ports_add_http(struct process *process, struct address *address,
                                   struct error *error)
{
    assert(!process->has_loaded && (address->is_unix || address->port != 0));
    TRY(self_check_add_port(process->self_check, address, error));
    TRY(advertised_host_apply(process->options.advertise_address, address, error));
    address_format(address, process->http_address);
    return STATUS_OK;
}

enum status process_ports_write(const struct process *process, struct error *error)
{
    if (!process->options.ports_file[0])
        return STATUS_OK;
    assert(process->addresses[PORT_CONTROL][0] && "parents look for it there");
    struct ports ports = {
        .pid = (uint32_t)getpid(),
        .incarnation = process->incarnation,
        .is_ready = process->is_ready,
    };
    assert((!ports.is_ready || process->has_loaded) && "ready is what serves");
    snprintf(ports.role, sizeof ports.role, "%s", role_name(process->options.role));
    snprintf(ports.name, sizeof ports.name, "%s", process->name);
    snprintf(ports.grpc, sizeof ports.grpc, "%s", process->addresses[PORT_GRPC]);
    snprintf(ports.http, sizeof ports.http, "%s", process->http_address);
    snprintf(ports.engine, sizeof ports.engine, "%s", process->addresses[PORT_ENGINE]);
    snprintf(ports.control, sizeof ports.control, "%s", process->addresses[PORT_CONTROL]);
    snprintf(ports.health, sizeof ports.health, "%s", process->addresses[PORT_HEALTH]);
    snprintf(ports.metrics, sizeof ports.metrics, "%s", process->metrics_address);
    snprintf(ports.unseen, sizeof ports.unseen, "%s", process->unseen);
    return ports_file_write(process->options.ports_file, &ports, error);
}

void process_ports_log(const struct process *process)
{
    const char *metrics = process->metrics_address;
    log_info("ports%s%s%s%s%s%s control %s health %s metrics %s tls%s%s%s key %s",
             process->addresses[PORT_GRPC][0] ? " grpc " : "", process->addresses[PORT_GRPC],
             process->http_address[0] ? " http " : "", process->http_address,
             process->addresses[PORT_ENGINE][0] ? " engine " : "", process->addresses[PORT_ENGINE],
             process->addresses[PORT_CONTROL],
             process->addresses[PORT_HEALTH][0] ? process->addresses[PORT_HEALTH] : "-",
             metrics[0] ? metrics : "-", process->tls.grpc ? " on" : "",
             process->tls.peer ? " peers" : "",
             process->tls.grpc || process->tls.peer ? "" : " off",
             process->options.cluster_key_fd   ? "of the parent"
             : process->options.cluster_key[0] ? process->options.cluster_key
                                               : "of this user");
}

void process_close_ports(struct process *process)
{
    for (int port = 0; port < PROCESS_PORTS; port++) {
        rpc_server_destroy(process->servers[port]);
        process->servers[port] = NULL;
    }
}
