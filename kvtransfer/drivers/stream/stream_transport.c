#include "kvtransfer/drivers/stream/stream_transport.h"

#include "base/clock.h"
#include "base/random.h"
#include "base/secret.h"
#include "base/wake.h"
#include "kvtransfer/drivers/stream/stream_address.h"
#include "kvtransfer/drivers/stream/stream_connection.h"
#include "kvtransfer/drivers/stream/stream_listener.h"
#include "kvtransfer/drivers/stream/stream_owner.h"
#include "kvtransfer/drivers/stream/stream_reader.h"
#include "kvtransfer/drivers/stream/stream_traffic.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Messages for refusals: those of one pull. */
enum { REFUSALS_MAX = GET_PIECES_MAX };

/* Between two checks of time limits. */
#define TICK_NS (100 * NS_PER_MS)

/* ---- peers ---- */

static enum status create_peer(struct stream_transport *transport,
                               const struct transport_address *address, bool is_admitted,
                               struct stream_peer **peer_out)
{
    /* A reader need not be readable itself. */
    bool is_valid = is_admitted ? transport->driver == STREAM_UNIX ||
                                      address->secret_bytes == TRANSPORT_SECRET_BYTES
                                : stream_address_is_valid(transport->driver, address);
    if (!is_valid)
        return STATUS_CORRUPT;
    struct transport_peer *base;
    TRY(peer_list_add(&transport->peers, &transport->base, address->incarnation, sizeof **peer_out,
                      &base));
    struct stream_peer *peer = stream_peer_of(base);
    peer->address = *address;
    base->is_admitted = is_admitted;
    *peer_out = peer;
    return STATUS_OK;
}

static void wipe(struct stream_peer *peer)
{
    assert(!peer->connection && "nothing of it is needed any more");
    secret_wipe(peer->address.secret, sizeof peer->address.secret);
}

static enum status stream_connect(struct transport *base, const struct transport_address *address,
                                  struct transport_peer **peer_out)
{
    struct stream_peer *peer;
    TRY(create_peer(stream_of(base), address, false, &peer));
    enum status status = stream_connection_open(peer);
    if (status != STATUS_OK) {
        wipe(peer);
        peer_list_remove(&stream_of(base)->peers, &peer->base);
        return status;
    }
    *peer_out = &peer->base;
    return STATUS_OK;
}

/* The reader connects when it wants to read. It may still have a connection from an earlier admission. */
static enum status stream_admit(struct transport *base, const struct transport_address *address,
                                struct transport_peer **peer_out)
{
    struct stream_peer *peer;
    TRY(create_peer(stream_of(base), address, true, &peer));
    *peer_out = &peer->base;
    return STATUS_OK;
}

static enum status stream_get(struct transport_peer *peer_base, const struct transfer_id *id,
                              const struct piece *pieces, uint32_t n, transport_got got, void *arg)
{
    struct stream_peer *peer = stream_peer_of(peer_base);
    struct stream_transport *transport = stream_of(peer_base->transport);
    struct get *gets[GET_PIECES_MAX];
    assert(!peer_base->is_closing && !peer->base.is_admitted);
    if (peer->base.is_failed)
        return STATUS_PEER_LOST;
    TRY(get_table_take(&transport->gets, &(struct get_call){peer_base, id, pieces, n, got, arg},
                       gets));
    assert(peer->connection); /* who has none has failed */
    stream_reader_get(peer, id, gets, n);
    return STATUS_OK;
}

static void stream_peer_close(struct transport_peer *peer, transport_done done, void *arg)
{
    peer_list_close(&stream_of(peer->transport)->peers, peer, done, arg);
}

/* Gets and reads of the peer end with its connection. An idle reader keeps its connection, for the case that it is
 * admitted again. */
static void let_go(struct stream_peer *peer)
{
    struct stream_connection *connection = peer->connection;
    assert(!connection || connection->peer == peer);
    assert(!connection || connection->is_accepted == peer->base.is_admitted);
    if (connection && peer->base.is_admitted && !stream_owner_is_busy(connection)) {
        connection->peer = NULL;
        peer->connection = NULL;
    } else if (connection) {
        stream_connection_lose(connection);
    }
}

static unsigned end_closing(struct stream_transport *transport)
{
    unsigned work = 0;
    if (!transport->peers.any_closing)
        return 0;
    transport->peers.any_closing = false;
    for (struct transport_peer *base = transport->peers.first, *next; base; base = next) {
        struct stream_peer *peer = stream_peer_of(base);
        next = base->next;
        if (!base->is_closing)
            continue;
        let_go(peer);
        get_table_report(&transport->gets);
        assert(!peer->connection && base->n_reads == 0);
        next = base->next; /* a callback may have added or closed peers */
        wipe(peer);
        peer_list_end(&transport->peers, base);
        work++;
    }
    return work;
}

/* ---- progress ---- */

/* Returns 1 for a wake: the caller must look at its own queues again before it waits. */
static unsigned handle_event(struct stream_transport *transport, const struct epoll_event *event)
{
    uint64_t tag = event->data.u64;
    if (tag == EVENT_WAKE) {
        (void)wake_take(transport->wake_fd);
        return 1;
    }
    if (tag >= EVENT_LISTENER) {
        assert((uint32_t)tag < transport->n_listeners);
        stream_listener_accept(transport, (uint32_t)tag);
    } else {
        assert((uint32_t)tag < transport->connections_max);
        struct stream_connection *connection = &transport->connections[(uint32_t)tag];
        if (connection->state == CONNECTION_FREE || stream_connection_tag(connection) != tag)
            return 0; /* of a use of the place before */
        if (connection->is_held && (event->events & (EPOLLHUP | EPOLLERR)) != 0)
            stream_connection_lose(connection);
        else
            stream_connection_make_ready(connection);
    }
    return 0;
}

static unsigned serve_ready(struct stream_transport *transport)
{
    unsigned work = 0;
    for (uint32_t n = transport->n_ready; n > 0 && transport->first_ready; n--, work++) {
        struct stream_connection *connection = transport->first_ready;
        assert(connection->is_ready && connection->state != CONNECTION_FREE);
        stream_connection_make_unready(connection);
        stream_traffic_serve(connection);
    }
    return work;
}

static void look_at_time(struct stream_transport *transport)
{
    if (transport->now_ns < transport->next_tick_ns)
        return;
    transport->next_tick_ns = transport->now_ns + TICK_NS;
    stream_listener_retry(transport);
    if (transport->base.port.n_unproven + transport->n_opening > 0)
        stream_connections_check_time(transport);
}

static unsigned stream_progress(struct transport *base, uint64_t now_ns)
{
    struct stream_transport *transport = stream_of(base);
    unsigned work = 0;
    transport->now_ns = now_ns;
    if (transport->n_events == 0)
        transport->n_events = epoll_wait(transport->epoll_fd, transport->events, STREAM_EVENTS_MAX,
                                         0);
    for (int i = 0; i < transport->n_events; i++)
        work += handle_event(transport, &transport->events[i]);
    transport->n_events = 0;
    look_at_time(transport);
    work += serve_ready(transport);
    stream_owner_resume(transport);
    work += get_table_report(&transport->gets);
    return work + end_closing(transport);
}

static void stream_wait(struct transport *base, uint64_t until_ns)
{
    struct stream_transport *transport = stream_of(base);
    uint64_t now_ns = clock_now_ns();
    bool has_time = transport->base.port.n_unproven + transport->n_opening > 0 ||
                    transport->is_deaf;
    if (has_time && transport->next_tick_ns < until_ns)
        until_ns = transport->next_tick_ns;
    if (until_ns <= now_ns || transport->first_ready || transport->peers.any_closing)
        return;
    int n = epoll_wait(transport->epoll_fd, transport->events, STREAM_EVENTS_MAX,
                       clock_poll_ms(now_ns, until_ns));
    transport->n_events = n > 0 ? n : 0; /* EINTR: as if woken */
}

static void stream_wake(struct transport *base)
{
    wake_send(stream_of(base)->wake_fd);
}

static void stream_address(const struct transport *base, struct transport_address *address_out)
{
    const struct stream_transport *transport = stream_of(base);
    *address_out = (struct transport_address){.incarnation = transport->incarnation,
                                              .pieces_max = transport->bounds.pieces_max};
    stream_address_tell(transport, address_out);
}

/* ---- open and close ---- */

static void stream_close(struct transport *base)
{
    struct stream_transport *transport = stream_of(base);
    for (struct transport_peer *peer = transport->peers.first; peer; peer = peer->next)
        peer->is_closing = true;
    for (uint32_t i = 0; transport->connections && i < transport->connections_max; i++)
        if (transport->connections[i].state != CONNECTION_FREE)
            stream_connection_lose(&transport->connections[i]);
    while (transport->peers.first) {
        wipe(stream_peer_of(transport->peers.first));
        peer_list_remove(&transport->peers, transport->peers.first);
    }
    assert(transport->peers.n == 0 && transport->bounds.n_reads == 0 && transport->n_held == 0);
    assert(transport->base.port.n_unproven + transport->base.port.n_proven == 0);
    stream_listener_close(transport);
    tls_context_destroy(transport->tls);
    if (transport->wake_fd >= 0)
        close(transport->wake_fd);
    if (transport->epoll_fd >= 0)
        close(transport->epoll_fd);
    secret_wipe(transport->secret, sizeof transport->secret);
    get_table_finish(&transport->gets);
    free(transport->pulls);
    free(transport->pieces);
    free(transport->connections);
    free(transport);
}

#define STREAM_OPS(driver_name)                                                                    \
    {                                                                                              \
        .name = (driver_name), .close = stream_close, .address = stream_address,                   \
        .connect = stream_connect, .admit = stream_admit, .get = stream_get,                       \
        .peer_close = stream_peer_close, .progress = stream_progress, .wait = stream_wait,         \
        .wake = stream_wake,                                                                       \
    }

static const struct transport_ops UNIX_OPS = STREAM_OPS("unix");
static const struct transport_ops TLS_OPS = STREAM_OPS("tls");

static enum status create_tables(struct stream_transport *transport, uint32_t gets_max)
{
    const uint32_t n_pieces = transport->bounds.reads_max + REFUSALS_MAX;
    transport->connections_max = transport->unproven_max + 2 * transport->peers.n_max;
    TRY(get_table_init(&transport->gets, gets_max));
    transport->pulls = calloc(gets_max, sizeof *transport->pulls);
    transport->pieces = calloc(n_pieces, sizeof *transport->pieces);
    transport->connections = calloc(transport->connections_max, sizeof *transport->connections);
    if (!transport->pulls || !transport->pieces || !transport->connections)
        return STATUS_NO_MEMORY;
    for (uint32_t i = 0; i < gets_max; i++)
        message_append(&transport->free_pulls, &transport->pulls[i].message);
    for (uint32_t i = 0; i < n_pieces; i++)
        message_append(&transport->free_pieces, &transport->pieces[i].message);
    return STATUS_OK;
}

static enum status create_wake(struct stream_transport *transport, struct error *error)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = EVENT_WAKE};
    transport->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    transport->wake_fd = wake_open();
    if (transport->epoll_fd < 0 || transport->wake_fd < 0 ||
        epoll_ctl(transport->epoll_fd, EPOLL_CTL_ADD, transport->wake_fd, &event) != 0)
        return error_set(error, STATUS_IO_FAILED, "epoll: %m");
    return STATUS_OK;
}

static enum status set_up(struct stream_transport *transport, const struct stream_options *options,
                          struct error *error)
{
    TRY(create_tables(transport, options->gets_max));
    TRY(create_wake(transport, error));
    if (options->driver == STREAM_TLS) {
        TRY(random_secret(transport->secret, sizeof transport->secret, error));
        TRY(tls_context_create(stream_owner_find_key, &transport->tls, error));
    }
    return stream_listener_open(transport, options, error);
}

enum status stream_transport_open(const struct stream_options *options,
                                  struct transport **transport_out, struct error *error)
{
    if (options->peers_max == 0 || options->gets_max == 0 || options->reads_max == 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "peers_max, gets_max and reads_max must not be 0");
    struct stream_transport *transport = calloc(1, sizeof *transport);
    if (!transport)
        return STATUS_NO_MEMORY;
    transport->base.ops = options->driver == STREAM_UNIX ? &UNIX_OPS : &TLS_OPS;
    transport->driver = options->driver;
    transport->incarnation = options->incarnation;
    transport->now_ns = clock_now_ns();
    transport->epoll_fd = transport->wake_fd = transport->spare_fd = -1;
    transport->peers.n_max = options->peers_max;
    transport->bounds.reads_max = options->reads_max;
    transport->bounds.pieces_max = options->pieces_max ? options->pieces_max : options->reads_max;
    transport->unproven_max = options->unproven_max ? options->unproven_max : STREAM_UNPROVEN_MAX;
    transport->proof_ns = options->proof_ns ? options->proof_ns : STREAM_PROOF_NS;
    enum status status = set_up(transport, options, error);
    if (status != STATUS_OK) {
        stream_close(&transport->base);
        return status;
    }
    *transport_out = &transport->base;
    return STATUS_OK;
}
