/* http_connection_io - bytes between a connection and its socket, through TLS where there is some. */
#include "api/http/http_connection.h"
#include "base/clock.h"

#include <assert.h>
#include <errno.h>
#include <event2/buffer.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#define PIECES_MAX       16
#define LINGER_BYTES_MAX (256u << 10) /* of what is read and thrown away */
#define TLS_RECORD_HELLO 0x16

/* ---- from the client ---- */

static void end_of_input(struct http_connection *connection)
{
    connection->has_ended = true;
    connection->is_over = connection->is_over || !http_connection_may_still_read(connection);
}

static void take_encrypted(struct http_connection *connection, size_t n)
{
    struct http_common *common = connection->common;
    enum tls_progress progress = TLS_DONE;
    if (!tls_link_feed(connection->link, common->buffer, n)) {
        connection->is_over = true;
        return;
    }
    while (progress == TLS_DONE) {
        size_t n_plain;
        progress = tls_link_read(connection->link, common->plain, sizeof common->plain, &n_plain);
        if (evbuffer_add(connection->in, common->plain, n_plain) != 0)
            connection->is_over = true;
    }
    http_connection_put_link_output(connection, connection->link); /* what answers a key update */
    if (progress == TLS_FAILED) {
        if (*tls_link_failure(connection->link))
            http_connection_count(connection, HTTP_LIMIT_TLS);
        end_of_input(connection);
    }
}

/* Some client took the port for one of clear text: OpenSSL's own words for that help nobody. */
static bool speaks_clear_text(const struct http_connection *connection)
{
    uint8_t first = connection->common->buffer[0];
    return !connection->has_said_hello && first >= 'A' && first <= 'Z';
}

static void take_handshake(struct http_connection *connection, size_t n)
{
    struct http_common *common = connection->common;
    if (speaks_clear_text(connection)) {
        http_connection_count(connection, HTTP_LIMIT_TLS);
        handshakes_forget(common->handshakes, connection->handshake);
        connection->handshake = NULL;
        http_connection_refuse(connection, 400, 0, "this port speaks TLS: use https");
        return;
    }
    if (!tls_link_feed(handshake_link(connection->handshake), common->buffer, n)) {
        http_connection_count(connection, HTTP_LIMIT_TLS);
        connection->is_over = true;
        return;
    }
    connection->is_computing = true;
    handshakes_step(common->handshakes, connection->handshake);
}

static void take_clear(struct http_connection *connection, size_t n)
{
    if (!connection->has_said_hello && connection->common->buffer[0] == TLS_RECORD_HELLO) {
        http_connection_count(connection, HTTP_LIMIT_PROTOCOL);
        http_connection_refuse(connection, 400, 0, "this port speaks clear text: use http");
    } else if (evbuffer_add(connection->in, connection->common->buffer, n) != 0) {
        connection->is_over = true;
    }
}

static void take(struct http_connection *connection, size_t n)
{
    if (connection->common->metrics)
        counter_add(connection->common->metrics->received_bytes, n);
    if (connection->phase == HTTP_LINGERING || connection->phase == HTTP_FLUSHING) {
        connection->n_lingered += (uint32_t)n;
        connection->is_over = connection->is_over || connection->n_lingered > LINGER_BYTES_MAX;
    } else if (connection->handshake) {
        take_handshake(connection, n);
    } else if (connection->link) {
        take_encrypted(connection, n);
    } else {
        take_clear(connection, n);
    }
    connection->has_said_hello = true;
}

void http_connection_read(struct http_connection *connection)
{
    assert(!connection->is_over && !connection->is_computing);
    ssize_t n = recv(connection->fd, connection->common->buffer, HTTP_READ_BYTES, MSG_DONTWAIT);
    if (n > 0)
        take(connection, (size_t)n);
    else if (n == 0)
        end_of_input(connection);
    else if (errno != EAGAIN && errno != EINTR)
        connection->is_over = true;
}

bool http_connection_may_still_read(const struct http_connection *connection)
{
    return connection->phase == HTTP_FLUSHING ||
           (connection->exchange && http_exchange_is_answered_whole(connection->exchange));
}

bool http_connection_has_peer_left(const struct http_connection *connection)
{
    struct pollfd look = {.fd = connection->fd, .events = POLLRDHUP};
    return poll(&look, 1, 0) == 1 && (look.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

/* ---- to the client ---- */

void http_connection_put_link_output(struct http_connection *connection, struct tls_link *link)
{
    const uint8_t *bytes;
    size_t n = tls_link_output(link, &bytes);
    if (n > 0 && evbuffer_add(connection->wire, bytes, n) != 0)
        connection->is_over = true;
    tls_link_sent(link);
}

static void encrypt(struct http_connection *connection, struct evbuffer *from)
{
    while (evbuffer_get_length(from) > 0 && !connection->is_over) {
        size_t n = evbuffer_get_contiguous_space(from);
        n = n < TLS_PLAIN_MAX ? n : TLS_PLAIN_MAX;
        const uint8_t *bytes = evbuffer_pullup(from, (ev_ssize_t)n);
        if (!bytes || !tls_link_write(connection->link, bytes, n))
            connection->is_over = true;
        evbuffer_drain(from, n);
    }
    http_connection_put_link_output(connection, connection->link);
}

void http_connection_put(struct http_connection *connection, struct evbuffer *from)
{
    if (connection->link)
        encrypt(connection, from);
    else if (evbuffer_add_buffer(connection->wire, from) != 0)
        connection->is_over = true;
}

/* A reader has slow_reader_ns for what waits, or for HTTP_READER_BYTES of it. */
static void watch_reader(struct http_connection *connection, size_t n_sent, uint64_t now_ns)
{
    size_t n = evbuffer_get_length(connection->wire);
    if (n == 0) {
        connection->reader_due_ns = DEADLINE_NONE;
    } else if (connection->reader_due_ns == DEADLINE_NONE || n_sent >= connection->reader_left) {
        connection->reader_due_ns = now_ns + connection->common->limits.slow_reader_ns;
        connection->reader_left = n < HTTP_READER_BYTES ? n : HTTP_READER_BYTES;
    } else {
        connection->reader_left -= n_sent;
    }
}

void http_connection_write(struct http_connection *connection)
{
    size_t n_sent = 0;
    while (evbuffer_get_length(connection->wire) > 0 && !connection->is_over) {
        struct evbuffer_iovec pieces[PIECES_MAX];
        int n_pieces = evbuffer_peek(connection->wire, -1, NULL, pieces, PIECES_MAX);
        n_pieces = n_pieces < PIECES_MAX ? n_pieces : PIECES_MAX;
        struct iovec vectors[PIECES_MAX];
        for (int i = 0; i < n_pieces; i++)
            vectors[i] = (struct iovec){pieces[i].iov_base, pieces[i].iov_len};
        const struct msghdr message = {.msg_iov = vectors, .msg_iovlen = (size_t)n_pieces};
        ssize_t n = sendmsg(connection->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0) {
            connection->is_over = errno != EAGAIN && errno != EINTR && errno != ENOBUFS;
            break;
        }
        evbuffer_drain(connection->wire, (size_t)n);
        n_sent += (size_t)n;
    }
    if (connection->common->metrics)
        counter_add(connection->common->metrics->sent_bytes, n_sent);
    watch_reader(connection, n_sent, clock_now_ns());
}
