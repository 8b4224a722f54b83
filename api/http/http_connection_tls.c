/* http_connection_tls - the handshake of a connection to a port with certificates. */
#include "api/http/http_connection.h"
#include "base/clock.h"
#include "base/log/log.h"

#include <assert.h>
#include <event2/buffer.h>
#include <inttypes.h>
#include <stdio.h>

#define LOG_FAILURES_NS (10 * NS_PER_S)

static void note_failure(struct http_connection *connection)
{
    struct http_common *common = connection->common;
    uint64_t now_ns = clock_now_ns();
    http_connection_count(connection, HTTP_LIMIT_TLS);
    common->n_failed_handshakes++;
    if (now_ns < common->log_tls_at_ns)
        return;
    log_warn("TLS handshakes failed %" PRIu32 " on the HTTP port: the last of %s: %s",
             common->n_failed_handshakes, connection->peer.address,
             tls_link_failure(handshake_link(connection->handshake)));
    common->n_failed_handshakes = 0;
    common->log_tls_at_ns = now_ns + LOG_FAILURES_NS;
}

static void begin_encrypted(struct http_connection *connection)
{
    struct tls_uris uris;
    connection->link = handshake_finish(connection->handshake);
    connection->handshake = NULL;
    tls_link_uris(connection->link, &uris);
    const char *identity = tls_uris_identity(&uris);
    connection->peer.is_encrypted = true;
    snprintf(connection->peer.identity, sizeof connection->peer.identity, "%s",
             identity ? identity : "");
    if (connection->common->metrics)
        counter_add(connection->common->metrics->handshakes, 1);
    http_connection_enter(connection, HTTP_IDLE, connection->common->limits.head_ns);
}

/* What came behind the handshake's last bytes. */
static void take_early(struct http_connection *connection)
{
    struct http_common *common = connection->common;
    size_t n_plain;
    enum tls_progress progress = TLS_DONE;
    while (progress == TLS_DONE) {
        progress = tls_link_read(connection->link, common->plain, sizeof common->plain, &n_plain);
        if (evbuffer_add(connection->in, common->plain, n_plain) != 0)
            connection->is_over = true;
    }
    connection->is_over = connection->is_over || progress == TLS_FAILED;
}

void http_connection_on_handshake(struct http_connection *connection, enum tls_progress progress)
{
    assert(connection->phase == HTTP_HANDSHAKE && connection->is_computing);
    connection->is_computing = false;
    http_connection_put_link_output(connection, handshake_link(connection->handshake));
    http_connection_write(connection);
    if (!connection->is_over && progress == TLS_DONE) {
        begin_encrypted(connection);
        take_early(connection);
        http_connection_advance(connection);
    } else if (!connection->is_over && progress == TLS_FAILED) {
        note_failure(connection);
        http_connection_say_last(connection, false);
    }
}
