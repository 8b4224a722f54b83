/* server - see server.h and server_state.h. */
#include "rpc/server/server.h"

#include "base/clock.h"
#include "base/cond.h"
#include "base/log/log.h"
#include "proto/descriptor_set.h"
#include "rpc/auth/credentials.h"
#include "rpc/relay/request_window.h"
#include "rpc/server/call_state.h"
#include "rpc/server/health.h"
#include "rpc/server/reflection.h"
#include "rpc/server/server_state.h"

#include <assert.h>
#include <grpc/grpc_posix.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Slots that wait for calls of one method. A used slot is replaced before anything else is done, so the number
 * is no limit of calls. In a burst it keeps calls out of gRPC's own queue. */
#define SLOTS_PER_METHOD      16
#define SLOTS_FOR_UNKNOWN     2
#define KILL_WAIT_MS          5000 /* for the ends of cancelled calls; measured: 4 ms */
#define N_REFLECTION_SERVICES 2
/* Headers of up to this many times header_bytes_max are received, and only their call is refused. For larger ones
 * gRPC's core and the relay before it can only end the connection. */
#define HEADER_SLACK 4

static void on_accepted(struct rpc_tag *tag, bool is_ok);

/* --- accepting calls --- */

/* Gives gRPC one more slot for the next call. gRPC refuses it while it shuts down: then the slot is freed. */
static void arm(struct rpc_server *server, struct rpc_server_method *method)
{
    struct rpc_call *slot = rpc_call_create(server, method);
    if (!slot) {
        log_error("out of memory for a call slot");
        return;
    }
    slot->accepted = (struct rpc_tag){on_accepted, slot};
    pthread_mutex_lock(&server->lock);
    server->n_objects++;
    pthread_mutex_unlock(&server->lock);

    grpc_completion_queue *queue = rpc_queue(server->runtime);
    rpc_queue_publish(server->runtime);
    grpc_call_error result;
    if (!method)
        result = grpc_server_request_call(server->server, &slot->call, &slot->details,
                                          &slot->metadata, queue, queue, &slot->accepted);
    else
        result = grpc_server_request_registered_call(server->server, method->registered,
                                                     &slot->call, &slot->deadline, &slot->metadata,
                                                     NULL, queue, queue, &slot->accepted);
    if (result == GRPC_CALL_OK)
        return;
    log_error("grpc refused a call slot: %s", grpc_call_error_to_string(result));
    slot->call = NULL;
    rpc_server_call_gone(server, slot);
}

/* OK, or the reason why the call is refused by its headers. */
static enum status admit(struct rpc_server *server, struct rpc_call *call, struct rpc_error *error)
{
    TRY(rpc_call_take_request_id(call, error));
    TRY(rpc_call_check_headers(call, error));
    if (call->method && call->method->is_inner) {
        TRY(rpc_call_authenticate(call, error));
        TRY(rpc_call_check_role(call, error));
    }
    enum status status = rpc_server_call_limit(server, call);
    if (status != STATUS_OK)
        rpc_error_set(error, status, NULL, NULL, "%s", status_text(status));
    const struct rpc_doorkeeper *doorkeeper = server->options.doorkeeper;
    if (status == STATUS_OK && doorkeeper && !call->method->is_inner)
        status = doorkeeper->enter(doorkeeper->arg, call, call->method->row->path, &call->pass,
                                   error);
    return status;
}

/* A drain ends calls that may wait for ever: calls of methods that idle, and calls whose message has not come. */
static void end_if_draining(struct rpc_server *server, struct rpc_call *call)
{
    const struct rpc_method *row = call->method ? call->method->row : NULL;
    if (!row || !atomic_load(&server->is_draining) ||
        !(row->idles || (!row->while_draining && rpc_call_is_awaiting(call))))
        return;
    struct rpc_error error;
    rpc_error_set(&error, STATUS_DRAINING, NULL, NULL, "%s", status_text(STATUS_DRAINING));
    rpc_call_fail(call, &error);
}

static void tell_drain(struct rpc_server *server)
{
    pthread_mutex_lock(&server->lock);
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
}

static void on_accepted(struct rpc_tag *tag, bool is_ok)
{
    struct rpc_call *call = tag->owner;
    struct rpc_server *server = call->server;
    if (!is_ok) {
        call->call = NULL;
        rpc_server_call_gone(server, call);
        return;
    }
    /* First: the next call may come while this call is checked. */
    if (!atomic_load(&server->is_closing))
        arm(server, call->method);
    rpc_server_call_came(server, call, clock_now_ns());

    struct rpc_error error;
    enum status status = admit(server, call, &error);
    if (status == STATUS_OK && call->method->row->kind != RPC_BIDI_STREAM) {
        rpc_call_await_message(call);
        end_if_draining(server, call);
        if (call->method->row->while_draining)
            tell_drain(server);
        return;
    }
    if (status == STATUS_OK) {
        rpc_server_call_live(server, call);
    } else {
        rpc_server_call_refused(server);
        rpc_call_fail(call, &error);
    }
    rpc_call_handled(call);
    rpc_call_release(call);
}

/* --- time limits, drain --- */

/* The process was stopped, or got no processor, if this is called so late: what was sent meanwhile says nothing of readers. */
#define LATE_TICK_NS NS_PER_S

static void check_time(void *owner, uint64_t now_ns)
{
    struct rpc_server *server = owner;
    pthread_mutex_lock(&server->lock);
    uint64_t passed_ns = server->last_tick_ns > 0 ? now_ns - server->last_tick_ns : 0;
    uint64_t stopped_ns = passed_ns > LATE_TICK_NS ? passed_ns : 0;
    server->last_tick_ns = now_ns;
    for (struct rpc_call *call = server->calls; call; call = call->next)
        rpc_call_check_time(call, now_ns, stopped_ns);
    pthread_mutex_unlock(&server->lock);
}

/* Waits for the server's `changed`. False: until_ns has passed. */
static bool wait_changed(struct rpc_server *server, uint64_t until_ns)
{
    return cond_wait_until(&server->changed, &server->lock, until_ns);
}

static bool wait_no_open_calls(struct rpc_server *server, uint64_t limit_ns)
{
    uint64_t now_ns = clock_now_ns();
    uint64_t deadline_ns = limit_ns < INT64_MAX - now_ns ? now_ns + limit_ns : INT64_MAX;
    pthread_mutex_lock(&server->lock);
    while (server->n_open > atomic_load(&server->n_late) && wait_changed(server, deadline_ns))
        ;
    bool is_none = server->n_open <= atomic_load(&server->n_late);
    pthread_mutex_unlock(&server->lock);
    return is_none;
}

void rpc_server_drain_start(struct rpc_server *server)
{
    if (atomic_exchange(&server->is_draining, true))
        return;
    if (server->options.health)
        rpc_health_drain(server->options.health);
    pthread_mutex_lock(&server->lock);
    for (struct rpc_call *call = server->calls; call; call = call->next)
        end_if_draining(server, call);
    pthread_mutex_unlock(&server->lock);
}

static void kill_calls(struct rpc_server *server)
{
    pthread_mutex_lock(&server->lock);
    for (struct rpc_call *call = server->calls; call; call = call->next)
        rpc_call_kill(call, STATUS_DRAINING);
    pthread_mutex_unlock(&server->lock);
}

void rpc_server_drain(struct rpc_server *server, uint64_t limit_ns)
{
    assert(!rpc_runtime_is_current(server->runtime));
    rpc_server_drain_start(server);
    if (wait_no_open_calls(server, limit_ns))
        return;
    kill_calls(server);
    if (!wait_no_open_calls(server, KILL_WAIT_MS * NS_PER_MS))
        log_warn("drain: calls are still open after their cancellation");
}

static void on_shut_down(struct rpc_tag *tag, bool is_ok)
{
    (void)is_ok;
    struct rpc_server *server = tag->owner;
    pthread_mutex_lock(&server->lock);
    server->is_shut_down = true;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
}

static void shut_down(struct rpc_server *server)
{
    atomic_store(&server->is_closing, true); /* before calls end: no slot is armed again */
    kill_calls(server);
    server->shut_down = (struct rpc_tag){on_shut_down, server};
    rpc_queue_publish(server->runtime);
    grpc_server_shutdown_and_notify(server->server, rpc_queue(server->runtime), &server->shut_down);
    grpc_server_cancel_all_calls(server->server);

    pthread_mutex_lock(&server->lock);
    while (!server->is_shut_down || server->n_objects > 0 || server->n_open > 0)
        pthread_cond_wait(&server->changed, &server->lock);
    pthread_mutex_unlock(&server->lock);
    rpc_queue_remove_tick(server->runtime, &server->tick);
}

/* --- creation --- */

static grpc_arg integer_argument(const char *key, uint64_t value)
{
    grpc_arg argument = {.type = GRPC_ARG_INTEGER, .key = (char *)key};
    argument.value.integer = value < INT_MAX ? (int)value : INT_MAX;
    return argument;
}

/* The largest message that a row or the server allows. gRPC itself refuses larger ones. */
static uint32_t receive_bytes_max(const struct rpc_server *server)
{
    uint32_t n_max = server->options.message_bytes_max;
    for (size_t i = 0; i < server->n_methods; i++) {
        const struct rpc_method *row = server->methods[i].row;
        assert(row);
        if (row->request_bytes_max > n_max)
            n_max = row->request_bytes_max;
    }
    return n_max;
}

static uint32_t header_bytes_end(const struct rpc_server *server)
{
    uint64_t n = (uint64_t)server->options.header_bytes_max * HEADER_SLACK;
    return n < INT_MAX ? (uint32_t)n : INT_MAX;
}

static grpc_server *create_grpc_server(const struct rpc_server *server)
{
    const struct rpc_server_options *options = &server->options;
    grpc_resource_quota *quota = grpc_resource_quota_create("server");
    grpc_resource_quota_resize(quota, options->memory_quota_bytes);
    grpc_arg quota_argument = {.type = GRPC_ARG_POINTER, .key = (char *)GRPC_ARG_RESOURCE_QUOTA};
    quota_argument.value.pointer.p = quota;
    quota_argument.value.pointer.vtable = grpc_resource_quota_arg_vtable();

    uint32_t receive_max = receive_bytes_max(server);
    grpc_arg arguments[] = {
        quota_argument,
        integer_argument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options->streams_per_connection_max),
        integer_argument(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, receive_max),
        integer_argument(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, options->message_bytes_max),
        integer_argument(GRPC_ARG_MAX_METADATA_SIZE, header_bytes_end(server)),
        /* The first window of a stream must be the one that the relay expects: relay/request_window.h. */
        integer_argument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, REQUEST_WINDOW_BYTES),
        integer_argument(GRPC_ARG_HTTP2_BDP_PROBE, 0),
        integer_argument(GRPC_ARG_KEEPALIVE_TIME_MS, options->keepalive_time_ms),
        integer_argument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, options->keepalive_timeout_ms),
        integer_argument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1),
        integer_argument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                         options->ping_interval_min_ms),
        integer_argument(GRPC_ARG_MAX_CONNECTION_AGE_MS, options->connection_age_ms),
        integer_argument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, INT_MAX),
        /* gzip.h inflates requests; replies are not compressed. */
        integer_argument(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET,
                         1u << GRPC_COMPRESS_NONE | 1u << GRPC_COMPRESS_GZIP),
        integer_argument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0),
    };
    grpc_channel_args channel_args = {sizeof arguments / sizeof *arguments, arguments};
    grpc_server *result = grpc_server_create(&channel_args, NULL);
    grpc_resource_quota_unref(quota);
    return result;
}

static enum status add_methods(struct rpc_server *server, const struct rpc_service *services,
                               size_t n_services)
{
    struct rpc_service all[N_REFLECTION_SERVICES];
    size_t n_reflection = 0;
    if (server->options.reflection) {
        rpc_reflection_services(server->reflection, all);
        n_reflection = N_REFLECTION_SERVICES;
    }
    size_t n = 0;
    for (size_t i = 0; i < n_services + n_reflection; i++)
        n += i < n_services ? services[i].n_methods : all[i - n_services].n_methods;
    server->methods = calloc(n ? n : 1, sizeof *server->methods);
    if (!server->methods)
        return STATUS_NO_MEMORY;
    for (size_t i = 0; i < n_services + n_reflection; i++) {
        const struct rpc_service *service = i < n_services ? &services[i] : &all[i - n_services];
        for (size_t j = 0; j < service->n_methods; j++) {
            struct rpc_server_method *method = &server->methods[server->n_methods++];
            method->row = &service->methods[j];
            method->service = service->arg;
            method->is_inner = service->is_inner;
            if (server->options.call_counters)
                method->counted = call_counters_add_method(server->options.call_counters,
                                                           method->row->path);
            assert(!service->is_inner ||
                   (server->options.auth && method->row->kind != RPC_BIDI_STREAM));
        }
    }
    return STATUS_OK;
}

/* Runs on the relay's thread. */
static void take_connection(void *arg, int fd)
{
    struct rpc_server *server = arg;
    grpc_server_add_channel_from_fd(server->server, fd, server->credentials);
}

static enum status listen_on(struct rpc_server *server, const char *address, struct error *error)
{
    for (size_t i = 0; i < server->n_methods; i++) {
        struct rpc_server_method *method = &server->methods[i];
        method->registered = grpc_server_register_method(server->server, method->row->path, NULL,
                                                         GRPC_SRM_PAYLOAD_NONE, 0);
        if (!method->registered)
            return error_set(error, STATUS_BUG, "method %s is served twice", method->row->path);
    }
    struct relay_options options = {
        .address = address,
        .limits = server->options.relay,
        .tls = server->options.tls,
        .metrics = server->options.relay_metrics,
        .hand_over = take_connection,
        .arg = server,
    };
    options.limits.streams_max = server->options.streams_per_connection_max;
    options.limits.header_bytes_max = header_bytes_end(server);
    options.limits.message_bytes_max = receive_bytes_max(server);
    TRY(relay_open(&options, error, &server->relay));
    server->port = relay_port(server->relay);
    return STATUS_OK;
}

static enum status start(struct rpc_server *server, struct error *error)
{
    grpc_server_start(server->server);
    server->has_started = true;
    for (size_t i = 0; i < server->n_methods; i++)
        for (unsigned slot = 0; slot < SLOTS_PER_METHOD; slot++)
            arm(server, &server->methods[i]);
    for (unsigned slot = 0; slot < SLOTS_FOR_UNKNOWN; slot++)
        arm(server, NULL);
    server->tick = (struct rpc_tick){.fn = check_time, .owner = server};
    rpc_queue_add_tick(server->runtime, &server->tick);
    return relay_start(server->relay, error);
}

static struct rpc_server *allocate(struct rpc_runtime *runtime,
                                   const struct rpc_server_options *options)
{
    struct rpc_server *server = calloc(1, sizeof *server);
    if (!server)
        return NULL;
    server->runtime = runtime;
    if (options)
        server->options = *options;
    else
        rpc_server_options_init(&server->options);
    assert(server->options.calls_max > 0);
    pthread_mutex_init(&server->lock, NULL);
    cond_init(&server->changed);
    return server;
}

enum status rpc_server_create(struct rpc_runtime *runtime, const char *address,
                              const struct rpc_service *services, size_t n_services,
                              const struct rpc_server_options *options, struct error *error,
                              struct rpc_server **server_out)
{
    enum status status = STATUS_NO_MEMORY;
    struct rpc_server *server = allocate(runtime, options);
    if (!server)
        return status;
    if (server->options.reflection) {
        size_t n_set = (size_t)(descriptor_set_end - descriptor_set_begin);
        status = rpc_reflection_create(descriptor_set_begin, n_set, services, n_services,
                                       &server->reflection);
        if (status != STATUS_OK)
            goto fail;
    }
    status = add_methods(server, services, n_services);
    if (status != STATUS_OK)
        goto fail;
    server->server = create_grpc_server(server);
    server->credentials = rpc_credentials_server();
    grpc_server_register_completion_queue(server->server, rpc_queue(runtime), NULL);
    status = listen_on(server, address, error);
    if (status != STATUS_OK)
        goto fail;
    status = start(server, error);
    if (status != STATUS_OK)
        goto fail;
    *server_out = server;
    return STATUS_OK;

fail:
    rpc_server_destroy(server);
    return status;
}

/* gRPC wants a server to be shut down even if it could not listen and was never started. */
static void shut_down_unstarted(struct rpc_server *server)
{
    server->shut_down = (struct rpc_tag){on_shut_down, server};
    rpc_queue_publish(server->runtime);
    grpc_server_shutdown_and_notify(server->server, rpc_queue(server->runtime), &server->shut_down);
    pthread_mutex_lock(&server->lock);
    while (!server->is_shut_down)
        pthread_cond_wait(&server->changed, &server->lock);
    pthread_mutex_unlock(&server->lock);
}

void rpc_server_send_away(struct rpc_server *server)
{
    relay_send_away(server->relay);
}

void rpc_server_close_port(struct rpc_server *server)
{
    relay_close(server->relay);
}

void rpc_server_destroy(struct rpc_server *server)
{
    if (!server)
        return;
    assert(!rpc_runtime_is_current(server->runtime));
    if (server->has_started) { /* each call gets its answer before its connection ends */
        rpc_server_drain_start(server);
        kill_calls(server);
        relay_quit(server->relay);
    }
    if (server->has_started)
        shut_down(server);
    else if (server->server)
        shut_down_unstarted(server);
    relay_destroy(server->relay);
    if (server->server)
        grpc_server_destroy(server->server);
    if (server->credentials)
        grpc_server_credentials_release(server->credentials);
    rpc_reflection_destroy(server->reflection);
    pthread_cond_destroy(&server->changed);
    pthread_mutex_destroy(&server->lock);
    free(server->methods);
    free(server);
}

uint16_t rpc_server_port(const struct rpc_server *server)
{
    return server->port;
}

void rpc_server_counts(struct rpc_server *server, struct rpc_server_counts *counts_out)
{
    pthread_mutex_lock(&server->lock);
    counts_out->calls_accepted = server->n_accepted;
    counts_out->calls_refused = server->n_refused;
    pthread_mutex_unlock(&server->lock);
    counts_out->calls_live = atomic_load(&server->n_live);
    counts_out->slow_reader_cancels = atomic_load(&server->slow_reader_cancels);
    counts_out->buffered_bytes = atomic_load(&server->buffered_bytes);
}
