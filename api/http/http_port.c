#include "api/http/http_port.h"

#include "api/http/http_connection.h"
#include "base/clock.h"
#include "base/cond.h"
#include "base/log/log.h"
#include "base/wake.h"

#include <assert.h>
#include <event2/event.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ACCEPTS_MAX   64 /* a listener and round */
#define CONNECTIONS_S 3  /* seconds of connections that an address may bring at once */
#define STUCK_MS      100
#define DRAIN_LOOK_MS 5
#define RETRY_LOG_NS  (10 * NS_PER_S)

enum wish { WISH_SERVE, WISH_DRAIN, WISH_END };

struct http_port {
    struct http_common common;
    struct network_list exempt;
    struct listener listener;
    struct event *acceptable[LISTENER_SOCKETS_MAX];
    struct event *accept_again;
    struct event *woken;
    struct event *computed; /* a handshake */
    struct event *drain_look;
    int handshake_wake; /* -1: none */
    pthread_t thread;
    bool has_thread;
    uint16_t number;
    uint64_t log_full_at_ns;
    atomic_int wish;

    pthread_mutex_t lock; /* what follows */
    pthread_cond_t changed;
    bool is_drained;
};

static void count(const struct http_port *port, enum http_limit limit)
{
    if (port->common.metrics)
        counter_add(port->common.metrics->struck[limit], 1);
}

/* ---- accepting ---- */

static void watch_listeners(struct http_port *port, bool on)
{
    for (uint32_t i = 0; i < port->listener.n; i++)
        (void)(on ? event_add(port->acceptable[i], NULL) : event_del(port->acceptable[i]));
}

/* The limit of its address that a new connection meets, or HTTP_N_LIMITS. */
static enum http_limit find_limit(const struct http_port *port, struct address_entry *address)
{
    const struct http_limits *limits = &port->common.limits;
    const struct budget_rate rate = {limits->address_connections_per_s, CONNECTIONS_S, 0};
    uint64_t now_ns = clock_now_ns();
    if (address->is_exempt)
        return HTTP_N_LIMITS;
    if (address->n_connections > limits->address_connections_max)
        return HTTP_LIMIT_ADDRESS_CONNECTIONS;
    if (budget_level(&address->connections, &rate, now_ns) < 1)
        return HTTP_LIMIT_ADDRESS_CONNECTION_RATE;
    (void)budget_take(&address->connections, &rate, 1, now_ns);
    return HTTP_N_LIMITS;
}

static bool is_better(const struct http_connection *one, const struct http_connection *other)
{
    unsigned ease = http_connection_dispensable(one),
             other_ease = http_connection_dispensable(other);
    if (ease != other_ease)
        return ease > other_ease;
    if (one->address->n_connections != other->address->n_connections)
        return one->address->n_connections > other->address->n_connections;
    return one->since_ns < other->since_ns;
}

/* Who only lingers does; nobody of an address that has fewer than the newcomer's does, and in the middle of a request only
 * who has more; nobody of an exempt one, which stands for many clients, does for another. */
static bool gives_way(const struct http_connection *connection,
                      const struct address_entry *newcomer)
{
    const struct address_entry *address = connection->address;
    unsigned ease = http_connection_dispensable(connection);
    if (ease == 0 || ease == HTTP_EASE_FREE)
        return ease == HTTP_EASE_FREE;
    uint32_t n_least = newcomer->n_connections + (ease == HTTP_EASE_BUSY);
    return address->n_connections >= n_least && (!address->is_exempt || newcomer->is_exempt);
}

/* At a full port. NULL: nobody gives way. */
static struct http_connection *find_dispensable(struct http_port *port,
                                                const struct address_entry *newcomer)
{
    struct http_connection *found = NULL, *at;
    for (at = TAILQ_FIRST(&port->common.connections); at; at = TAILQ_NEXT(at, link_in_port))
        if (gives_way(at, newcomer) && (!found || is_better(at, found)))
            found = at;
    return found;
}

static enum http_limit make_room(struct http_port *port, const struct address_entry *newcomer)
{
    if (port->common.n_connections < port->common.limits.connections_max)
        return HTTP_N_LIMITS;
    count(port, HTTP_LIMIT_CONNECTIONS);
    struct http_connection *dispensable = find_dispensable(port, newcomer);
    if (!dispensable)
        return HTTP_LIMIT_CONNECTIONS;
    http_connection_destroy(dispensable);
    return HTTP_N_LIMITS;
}

static void take_connection(struct http_port *port, int fd, const struct sockaddr_storage *at)
{
    struct network_address address;
    bool has_address = network_address_of(at, &address);
    struct address_entry *entry = address_book_enter(port->common.addresses,
                                                     has_address ? &address : NULL);
    if (!entry) {
        listener_refuse(fd);
        return;
    }
    enum http_limit limit = find_limit(port, entry);
    if (limit != HTTP_N_LIMITS)
        count(port, limit);
    else
        limit = make_room(port, entry);
    if (limit != HTTP_N_LIMITS &&
        (port->common.tls ||
         port->common.n_connections >= port->common.limits.connections_max + HTTP_LINGER_MAX)) {
        address_book_leave(port->common.addresses, entry);
        listener_refuse(fd);
        return;
    }
    struct http_connection *connection;
    if (http_connection_create(&port->common, fd, entry, at, &connection) != STATUS_OK) {
        log_warn("out of memory for a connection to the HTTP port");
        return;
    }
    if (port->common.metrics)
        counter_add(port->common.metrics->accepted, 1);
    if (limit != HTTP_N_LIMITS)
        http_connection_turn_away(connection, limit);
    http_connection_settle(connection);
}

static void note_failed_accept(struct http_port *port)
{
    uint64_t now_ns = clock_now_ns();
    count(port, HTTP_LIMIT_DESCRIPTORS);
    if (now_ns < port->log_full_at_ns)
        return;
    port->log_full_at_ns = now_ns + RETRY_LOG_NS;
    log_warn("no descriptor for a connection to the HTTP port: it was refused (ulimit -n)");
}

static void accept_some(struct http_port *port, uint32_t index)
{
    const struct timeval pause = {.tv_usec = STUCK_MS * 1000};
    for (uint32_t i = 0; i < ACCEPTS_MAX; i++) {
        struct sockaddr_storage at;
        int fd;
        switch (listener_accept(&port->listener, index, &fd, &at)) {
        case LISTENER_ACCEPTED:
            take_connection(port, fd, &at);
            break;
        case LISTENER_NONE:
            return;
        case LISTENER_REFUSED:
            note_failed_accept(port);
            break;
        case LISTENER_STUCK:
            note_failed_accept(port);
            watch_listeners(port, false);
            (void)event_add(port->accept_again, &pause);
            return;
        }
    }
}

static void on_acceptable(evutil_socket_t fd, short what, void *arg)
{
    struct http_port *port = arg;
    (void)what;
    for (uint32_t i = 0; i < port->listener.n; i++)
        if (port->listener.fds[i] == fd)
            accept_some(port, i);
}

static void on_accept_again(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    watch_listeners(arg, true);
}

/* ---- drain and end ---- */

static void tell_drained(struct http_port *port)
{
    pthread_mutex_lock(&port->lock);
    port->is_drained = true;
    pthread_cond_broadcast(&port->changed);
    pthread_mutex_unlock(&port->lock);
}

static void on_drain_look(evutil_socket_t fd, short what, void *arg)
{
    struct http_port *port = arg;
    const struct timeval again = {.tv_usec = DRAIN_LOOK_MS * 1000};
    (void)fd, (void)what;
    const struct http_connection *at = TAILQ_FIRST(&port->common.connections);
    while (at && at->phase == HTTP_LINGERING)
        at = TAILQ_NEXT(at, link_in_port);
    if (at)
        (void)event_add(port->drain_look, &again);
    else
        tell_drained(port);
}

static void stop_listening(struct http_port *port)
{
    for (uint32_t i = 0; i < port->listener.n; i++) {
        accept_some(port, i); /* who is in the queue would be reset */
        (void)event_del(port->acceptable[i]);
    }
    (void)event_del(port->accept_again);
    listener_close(&port->listener);
}

static void begin_drain(struct http_port *port)
{
    if (port->common.is_draining)
        return;
    stop_listening(port);
    port->common.is_draining = true;
    http_outbox_set_draining(port->common.outbox);
    struct http_connection *at = TAILQ_FIRST(&port->common.connections);
    while (at) {
        struct http_connection *next = TAILQ_NEXT(at, link_in_port);
        http_connection_drain(at);
        http_connection_settle(at);
        at = next;
    }
    on_drain_look(-1, 0, port);
}

/* ---- the thread ---- */

static void heed_wish(struct http_port *port)
{
    int wish = atomic_load(&port->wish);
    if (wish == WISH_DRAIN)
        begin_drain(port);
    else if (wish == WISH_END)
        (void)event_base_loopbreak(port->common.base);
}

static void pump_all(struct http_port *port)
{
    struct http_exchange *exchange = http_outbox_take(port->common.outbox);
    while (exchange) {
        struct http_connection *connection = exchange->connection;
        exchange = http_exchange_unqueue(exchange);
        if (connection) {
            http_connection_advance(connection);
            http_connection_settle(connection);
        }
    }
}

static void on_woken(evutil_socket_t fd, short what, void *arg)
{
    struct http_port *port = arg;
    (void)what;
    (void)wake_take(fd);
    heed_wish(port);
    pump_all(port);
}

static void on_computed(evutil_socket_t fd, short what, void *arg)
{
    struct http_port *port = arg;
    void *connection;
    enum tls_progress progress;
    (void)what;
    (void)wake_take(fd);
    while (handshakes_take(port->common.handshakes, &connection, &progress)) {
        http_connection_on_handshake(connection, progress);
        http_connection_settle(connection);
    }
}

static void *serve(void *arg)
{
    struct http_port *port = arg;
    pthread_setname_np(pthread_self(), "http-port");
    (void)event_base_dispatch(port->common.base);
    while (!TAILQ_EMPTY(&port->common.connections))
        http_connection_destroy(TAILQ_FIRST(&port->common.connections));
    pump_all(port);
    tell_drained(port);
    return NULL;
}

/* The C library keeps what was freed, and a flood of large bodies leaves the process as large as it was. */
static void on_trim(evutil_socket_t fd, short what, void *arg)
{
    struct http_port *port = arg;
    (void)fd, (void)what;
    if (http_outbox_body_bytes(port->common.outbox) >= HTTP_TRIM_BYTES)
        http_connection_trim_later(&port->common);
    else
        (void)malloc_trim(0);
}

/* ---- life ---- */

static enum status create_shared(struct http_port *port, const struct http_port_options *options,
                                 struct error *error)
{
    struct http_common *common = &port->common;
    TRY(network_list_read(options->limits.exempt, &port->exempt, error));
    TRY(http_outbox_create(&options->limits, options->error_form, options->doorkeeper,
                           &common->outbox));
    TRY(address_book_create(&port->exempt, &common->addresses));
    common->base = event_base_new();
    if (!common->base)
        return STATUS_NO_MEMORY;
    if (!options->tls)
        return STATUS_OK;
    port->handshake_wake = wake_open();
    if (port->handshake_wake < 0)
        return STATUS_NO_MEMORY;
    return handshakes_start(options->limits.handshakes_per_s, port->handshake_wake, error,
                            &common->handshakes);
}

static enum status create_events(struct http_port *port)
{
    struct event_base *base = port->common.base;
    port->accept_again = evtimer_new(base, on_accept_again, port);
    port->drain_look = evtimer_new(base, on_drain_look, port);
    port->common.trim = evtimer_new(base, on_trim, port);
    port->woken = event_new(base, http_outbox_wake(port->common.outbox), EV_READ | EV_PERSIST,
                            on_woken, port);
    if (!port->accept_again || !port->drain_look || !port->common.trim || !port->woken ||
        event_add(port->woken, NULL) != 0)
        return STATUS_NO_MEMORY;
    for (uint32_t i = 0; i < port->listener.n; i++) {
        port->acceptable[i] = event_new(base, port->listener.fds[i], EV_READ | EV_PERSIST,
                                        on_acceptable, port);
        if (!port->acceptable[i] || event_add(port->acceptable[i], NULL) != 0)
            return STATUS_NO_MEMORY;
    }
    if (!port->common.handshakes)
        return STATUS_OK;
    port->computed = event_new(base, port->handshake_wake, EV_READ | EV_PERSIST, on_computed, port);
    return port->computed && event_add(port->computed, NULL) == 0 ? STATUS_OK : STATUS_NO_MEMORY;
}

static enum status start_thread(struct http_port *port, struct error *error)
{
    int failed = pthread_create(&port->thread, NULL, serve, port);
    if (failed)
        return error_set(error, STATUS_NO_THREAD, "no thread for the HTTP port: %s",
                         strerror(failed));
    port->has_thread = true;
    return STATUS_OK;
}

static struct http_port *create(const struct http_port_options *options)
{
    struct http_port *port = calloc(1, sizeof *port);
    if (!port)
        return NULL;
    port->common.limits = options->limits;
    port->common.routes = options->routes;
    port->common.n_routes = options->n_routes;
    port->common.doorkeeper = options->doorkeeper;
    port->common.error_form = options->error_form;
    port->common.metrics = options->metrics;
    port->common.tls = options->tls;
    TAILQ_INIT(&port->common.connections);
    port->handshake_wake = -1;
    port->listener.reserve = -1;
    pthread_mutex_init(&port->lock, NULL);
    cond_init(&port->changed);
    return port;
}

enum status http_port_open(const struct http_port_options *options, struct error *error,
                           struct http_port **port_out)
{
    assert(options->address && (options->routes || options->n_routes == 0));
    struct http_port *port = create(options);
    if (!port)
        return STATUS_NO_MEMORY;
    enum status status = create_shared(port, options, error);
    if (status == STATUS_OK)
        status = listener_open(&port->listener, options->address, error);
    if (status != STATUS_OK)
        goto fail;
    port->number = port->listener.port;
    status = create_events(port);
    if (status == STATUS_OK)
        status = start_thread(port, error);
    if (status != STATUS_OK)
        goto fail;
    *port_out = port;
    return STATUS_OK;

fail:
    http_port_close(port);
    return status;
}

uint16_t http_port_number(const struct http_port *port)
{
    return port->number;
}

static void wish(struct http_port *port, enum wish what)
{
    atomic_store(&port->wish, what);
    wake_send(http_outbox_wake(port->common.outbox));
}

void http_port_drain_start(struct http_port *port)
{
    wish(port, WISH_DRAIN);
}

bool http_port_drain(struct http_port *port, uint64_t limit_ns)
{
    uint64_t until_ns = clock_now_ns() + limit_ns;
    bool has_time = true;
    http_port_drain_start(port);
    pthread_mutex_lock(&port->lock);
    while (!port->is_drained && has_time)
        has_time = cond_wait_until(&port->changed, &port->lock, until_ns);
    bool is_drained = port->is_drained;
    pthread_mutex_unlock(&port->lock);
    return is_drained;
}

static void free_event(struct event *event)
{
    if (event)
        event_free(event);
}

void http_port_close(struct http_port *port)
{
    if (!port)
        return;
    if (port->has_thread) {
        wish(port, WISH_END);
        pthread_join(port->thread, NULL);
    }
    handshakes_stop(port->common.handshakes);
    for (uint32_t i = 0; i < LISTENER_SOCKETS_MAX; i++)
        free_event(port->acceptable[i]);
    free_event(port->accept_again);
    free_event(port->woken);
    free_event(port->computed);
    free_event(port->drain_look);
    free_event(port->common.trim);
    listener_close(&port->listener);
    if (port->common.base)
        event_base_free(port->common.base);
    if (port->handshake_wake >= 0)
        close(port->handshake_wake);
    address_book_destroy(port->common.addresses);
    http_outbox_release(port->common.outbox);
    pthread_cond_destroy(&port->changed);
    pthread_mutex_destroy(&port->lock);
    free(port);
}
