#include "kvtransfer/drivers/stream/stream_connection.h"

#include "base/clock.h"
#include "base/log/log.h"
#include "base/secret.h"
#include "kvtransfer/drivers/stream/stream_address.h"
#include "kvtransfer/drivers/stream/stream_pieces.h"
#include "kvtransfer/transport/socket_owner.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- places ---- */

/* The oldest connection of a reader that is not admitted any more. */
static struct stream_connection *find_unbound(struct stream_transport *transport)
{
    struct stream_connection *oldest = NULL;
    for (uint32_t i = 0; i < transport->connections_max; i++) {
        struct stream_connection *connection = &transport->connections[i];
        if (connection->state == CONNECTION_OPEN && connection->is_accepted && !connection->peer &&
            (!oldest || connection->since_ns < oldest->since_ns))
            oldest = connection;
    }
    return oldest;
}

static struct stream_connection *find_free(struct stream_transport *transport)
{
    for (uint32_t i = 0; i < transport->connections_max; i++)
        if (transport->connections[i].state == CONNECTION_FREE)
            return &transport->connections[i];
    return NULL;
}

/* NULL: peers that may use them have all of them. */
static struct stream_connection *take_place(struct stream_transport *transport)
{
    struct stream_connection *place = find_free(transport);
    if (!place) {
        struct stream_connection *unbound = find_unbound(transport);
        if (unbound)
            stream_connection_lose(unbound);
        place = unbound;
    }
    if (!place)
        return NULL;
    assert(place->state == CONNECTION_FREE && !place->is_ready && !place->filling);
    *place = (struct stream_connection){.transport = transport,
                                        .generation = place->generation + 1,
                                        .since_ns = transport->now_ns,
                                        .link.fd = -1};
    frame_parser_init(&place->parser);
    return place;
}

void stream_connection_make_ready(struct stream_connection *connection)
{
    struct stream_transport *transport = connection->transport;
    if (connection->is_ready)
        return;
    assert(connection->state != CONNECTION_FREE);
    assert(transport->n_ready < transport->connections_max);
    connection->is_ready = true;
    connection->next_ready = NULL;
    *(transport->first_ready ? &transport->last_ready->next_ready
                             : &transport->first_ready) = connection;
    transport->last_ready = connection;
    transport->n_ready++;
}

void stream_connection_make_unready(struct stream_connection *connection)
{
    struct stream_transport *transport = connection->transport;
    struct stream_connection *before = NULL, *at = transport->first_ready;
    if (!connection->is_ready)
        return;
    assert(transport->n_ready > 0);
    while (at != connection) {
        assert(at && "who is ready is in the list");
        before = at;
        at = at->next_ready;
    }
    *(before ? &before->next_ready : &transport->first_ready) = connection->next_ready;
    if (transport->last_ready == connection)
        transport->last_ready = before;
    connection->is_ready = false;
    transport->n_ready--;
}

static uint32_t wanted_events(const struct stream_connection *connection)
{
    uint32_t out = connection->is_blocked ? EPOLLOUT : 0;
    switch (connection->state) {
    case CONNECTION_OPENING: /* epoll always reports a Unix socket that is not connected */
        return connection->transport->driver == STREAM_TLS ? EPOLLOUT : 0;
    case CONNECTION_OPEN:
        return out | (connection->is_held ? 0 : EPOLLIN);
    default:
        return out | EPOLLIN;
    }
}

/* The tag differs from one use of a place to the next. It is less than the other tags. */
uint64_t stream_connection_tag(const struct stream_connection *connection)
{
    uint64_t index = (uint64_t)(connection - connection->transport->connections);
    assert(index < connection->transport->connections_max);
    return index | (uint64_t)(connection->generation & INT32_MAX) << 32;
}

bool stream_connection_watch(struct stream_connection *connection)
{
    struct stream_transport *transport = connection->transport;
    uint32_t wanted = wanted_events(connection);
    assert(connection->link.fd >= 0);
    bool is_known = connection->watched != 0;
    if (connection->state == CONNECTION_OPENING && wanted == 0)
        return true;
    if (is_known && connection->watched == (wanted | EPOLLERR))
        return true;
    struct epoll_event event = {.events = wanted, .data.u64 = stream_connection_tag(connection)};
    connection->watched = wanted | EPOLLERR; /* which is always told */
    return epoll_ctl(transport->epoll_fd, is_known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD,
                     connection->link.fd, &event) == 0;
}

/* ---- to an owner ---- */

static void set_tcp_options(int fd)
{
    const int on = 1, idle_s = 10, interval_s = 5, count = 3, unheard_ms = 20000;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    /* A machine that is gone says nothing. */
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unheard_ms, sizeof unheard_ms);
}

enum dialled { DIAL_FAILED, DIAL_LATER, DIAL_CONNECTED };

static enum dialled dial(struct stream_connection *connection)
{
    assert(!connection->is_accepted && connection->peer);
    const struct stream_peer *peer = connection->peer;
    struct sockaddr_storage place;
    socklen_t bytes;
    if (!stream_address_place(connection->transport->driver, &peer->address, peer->host, &place,
                              &bytes))
        return DIAL_FAILED;
    if (connect(connection->link.fd, (const struct sockaddr *)(const void *)&place, bytes) == 0 ||
        errno == EISCONN)
        return DIAL_CONNECTED;
    bool is_later = errno == EINPROGRESS || errno == EALREADY || errno == EAGAIN || errno == EINTR;
    return is_later ? DIAL_LATER : DIAL_FAILED;
}

/* Connects to the first of the peer's remaining addresses that does not refuse at once. */
static bool start_dialling(struct stream_connection *connection)
{
    struct stream_transport *transport = connection->transport;
    struct stream_peer *peer = connection->peer;
    uint32_t n_places = transport->driver == STREAM_UNIX ? 1 : peer->address.n_hosts;
    for (; peer->host < n_places; peer->host++) {
        int family = transport->driver == STREAM_UNIX               ? AF_UNIX
                     : peer->address.hosts[peer->host].n_bytes == 4 ? AF_INET
                                                                    : AF_INET6;
        connection->link.fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (connection->link.fd < 0)
            return false;
        if (family != AF_UNIX)
            set_tcp_options(connection->link.fd);
        connection->since_ns = clock_now_ns(); /* the last round may be long ago */
        connection->watched = 0;
        if (dial(connection) != DIAL_FAILED && stream_connection_watch(connection)) {
            stream_connection_make_ready(connection);
            return true;
        }
        stream_link_close(&connection->link);
    }
    return false;
}

enum status stream_connection_open(struct stream_peer *peer)
{
    struct stream_transport *transport = stream_of(peer->base.transport);
    assert(!peer->base.is_admitted && !peer->connection); /* a reader's comes to us */
    struct stream_connection *connection = take_place(transport);
    if (!connection)
        return STATUS_QUEUE_FULL;
    connection->state = CONNECTION_OPENING;
    connection->peer = peer;
    connection->reader = transport->incarnation;
    connection->number = ++transport->n_numbers;
    if (!start_dialling(connection)) {
        stream_link_close(&connection->link);
        connection->state = CONNECTION_FREE;
        return STATUS_PEER_LOST;
    }
    peer->connection = connection;
    transport->n_opening++;
    const struct stream_frame hello = {.kind = FRAME_HELLO,
                                       .hello = {transport->incarnation, connection->number}};
    stream_frame_encode(&hello, connection->hello.head);
    message_append(&connection->out, &connection->hello);
    return STATUS_OK;
}

static void opened(struct stream_connection *connection)
{
    assert(!connection->is_accepted && connection->transport->n_opening > 0);
    connection->state = CONNECTION_OPEN;
    connection->transport->n_opening--;
}

static bool begin_proof(struct stream_connection *connection)
{
    struct stream_transport *transport = connection->transport;
    const struct stream_peer *peer = connection->peer;
    uint8_t key[TLS_KEY_BYTES];
    if (transport->driver == STREAM_UNIX) {
        if (!socket_owner_is_us(connection->link.fd))
            return false;
        opened(connection);
        return true;
    }
    bool is_begun = tls_key_derive(peer->address.secret, transport->secret, transport->incarnation,
                                   key) == STATUS_OK &&
                    tls_session_connect(transport->tls, connection->link.fd, transport->incarnation,
                                        key, &connection->link.tls) == STATUS_OK;
    secret_wipe(key, sizeof key);
    connection->state = CONNECTION_SHAKING;
    return is_begun;
}

static bool shake(struct stream_connection *connection)
{
    assert(connection->state == CONNECTION_SHAKING && connection->link.tls);
    int shaken = tls_session_handshake(connection->link.tls);
    int flushed = stream_link_flush(&connection->link);
    connection->is_blocked = flushed == LINK_LATER;
    if (shaken == TLS_LOST || flushed == LINK_LOST)
        return false;
    if (shaken == TLS_LATER)
        return true;
    if (connection->is_accepted)
        connection->state = CONNECTION_GREETED;
    else
        opened(connection);
    return true;
}

bool stream_connection_advance(struct stream_connection *connection)
{
    if (connection->state == CONNECTION_OPENING) {
        enum dialled dialled = dial(connection);
        if (dialled != DIAL_CONNECTED)
            return dialled == DIAL_LATER;
        if (!begin_proof(connection))
            return false;
    }
    return connection->state != CONNECTION_SHAKING || shake(connection);
}

/* ---- from a reader ---- */

bool stream_connection_accept(struct stream_transport *transport, int fd)
{
    struct stream_connection *connection = take_place(transport);
    if (!connection) {
        close(fd);
        atomic_fetch_add(&transport->base.port.refused[PORT_RESOURCES], 1);
        return false;
    }
    connection->link.fd = fd;
    connection->is_accepted = true;
    connection->state = transport->driver == STREAM_UNIX ? CONNECTION_GREETED : CONNECTION_SHAKING;
    transport->base.port.n_unproven++;
    if (transport->driver == STREAM_TLS)
        set_tcp_options(fd);
    if ((transport->driver == STREAM_TLS &&
         tls_session_accept(transport->tls, fd, connection, &connection->link.tls) != STATUS_OK) ||
        !stream_connection_watch(connection)) {
        connection->why = PORT_RESOURCES;
        stream_connection_lose(connection);
        return false;
    }
    stream_connection_make_ready(connection);
    return true;
}

void stream_connection_send(struct stream_connection *connection, struct stream_message *message)
{
    assert(!connection->is_accepted); /* an owner writes what is asked for, in turn */
    message_append(&connection->out, message);
    stream_connection_make_ready(connection);
}

void stream_connection_sent(struct stream_connection *connection, struct stream_message *message)
{
    if (message != &connection->hello)
        message_append(&connection->transport->free_pulls, message);
}

/* ---- the end ---- */

/* When the connection was never open: tries the other addresses of its peer. */
static bool try_elsewhere(struct stream_connection *connection)
{
    struct stream_peer *peer = connection->peer;
    if (connection->is_accepted || connection->state == CONNECTION_OPEN || peer->base.is_closing)
        return false;
    assert(!connection->filling && connection->sent == 0); /* nothing has crossed it yet */
    stream_link_close(&connection->link);
    connection->state = CONNECTION_OPENING;
    connection->is_blocked = false;
    connection->generation++;
    peer->host++;
    return start_dialling(connection);
}

static void leave_port(const struct stream_connection *connection)
{
    struct port_counts *port = &connection->transport->base.port;
    assert(connection->is_accepted);
    assert((connection->state == CONNECTION_OPEN ? port->n_proven : port->n_unproven) > 0);
    if (connection->state == CONNECTION_OPEN) {
        port->n_proven--;
        return;
    }
    port->n_unproven--;
    atomic_fetch_add(&port->refused[connection->why], 1);
}

static void let_go(struct stream_connection *connection)
{
    struct stream_transport *transport = connection->transport;
    struct stream_peer *peer = connection->peer;
    if (connection->is_accepted) {
        stream_pieces_drop(connection);
        leave_port(connection);
    } else {
        for (struct stream_message *message; (message = message_take(&connection->out));)
            stream_connection_sent(connection, message);
        assert(peer && peer->connection == connection);
        assert(connection->state == CONNECTION_OPEN || transport->n_opening > 0);
        transport->n_opening -= connection->state != CONNECTION_OPEN;
        peer->base.is_failed = true;
        get_table_end_peer(&transport->gets, &peer->base, STATUS_PEER_LOST);
    }
    if (peer)
        peer->connection = NULL;
}

void stream_connection_lose(struct stream_connection *connection)
{
    assert(connection->state != CONNECTION_FREE);
    if (try_elsewhere(connection))
        return;
    log_event(LOG_DEBUG, NULL, "data port: connection lost",
              LOG_TEXT("end", connection->is_accepted ? "reader" : "owner"),
              LOG_HEX("incarnation", connection->is_accepted ? connection->reader
                                                             : connection->peer->base.incarnation));
    stream_link_close(&connection->link);
    stream_connection_make_unready(connection);
    let_go(connection);
    assert(!connection->out.first && !connection->asked.first && !connection->is_held);
    connection->filling = NULL; /* its get has ended with PEER_LOST */
    secret_wipe(connection->secret, sizeof connection->secret);
    connection->state = CONNECTION_FREE;
    connection->peer = NULL;
}

void stream_connections_check_time(struct stream_transport *transport)
{
    for (uint32_t i = 0; i < transport->connections_max; i++) {
        struct stream_connection *connection = &transport->connections[i];
        if (connection->state == CONNECTION_FREE || connection->state == CONNECTION_OPEN)
            continue;
        if (transport->now_ns > connection->since_ns + transport->proof_ns) {
            connection->why = PORT_PROOF_TIME;
            stream_connection_lose(connection);
        } else if (connection->state == CONNECTION_OPENING) {
            stream_connection_make_ready(connection);
        }
    }
}
