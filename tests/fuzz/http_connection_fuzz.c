/*
 * http_connection_fuzz - whatever a client says, in whatever pieces: each request is answered or ends, each exchange ends once,
 * and nothing of the connection is left.
 *
 * The first byte says how large the pieces are, and which of them end with a look at what came back.
 */
#include "api/http/http_connection.h"

#include <event2/event.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ROUNDS_MAX 1000

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static struct http_common common;
static struct network_list exempt;
static struct http_exchange *held;
static uint32_t n_begun, n_ended;

static void check(bool holds)
{
    if (!holds)
        abort();
}

static void on_end(void *arg, enum status why)
{
    (void)arg, (void)why;
    n_ended++;
}

static void begin(struct http_exchange *exchange)
{
    n_begun++;
    http_exchange_on_end(exchange, on_end, NULL);
}

static void echo(void *arg, struct http_exchange *exchange)
{
    const struct http_answer_head head = {.code = 200};
    size_t n;
    (void)arg;
    begin(exchange);
    const char *body = http_exchange_body(exchange, &n);
    check(http_exchange_reply(exchange, &head, body, n) == STATUS_OK);
}

static void forget(void *arg, struct http_exchange *exchange)
{
    (void)arg;
    begin(exchange);
}

static void hold(void *arg, struct http_exchange *exchange)
{
    const struct http_answer_head head = {.code = 200};
    (void)arg;
    begin(exchange);
    check(http_exchange_begin(exchange, &head) == STATUS_OK);
    http_exchange_release(held);
    held = http_exchange_share(exchange);
}

static const struct http_route ROUTES[] = {
    {"/e", HTTP_VERB_GET | HTTP_VERB_POST, echo, NULL},
    {"/f", HTTP_VERB_GET, forget, NULL},
    {"/h/", HTTP_VERB_GET, hold, NULL},
};

static void set_up(void)
{
    signal(SIGPIPE, SIG_IGN);
    http_limits_init(&common.limits);
    common.limits.head_bytes_max = 2048;
    common.limits.target_bytes_max = 512;
    common.limits.fields_max = 8;
    common.limits.body_bytes_max = 200000;
    common.routes = ROUTES;
    common.n_routes = sizeof ROUTES / sizeof *ROUTES;
    common.base = event_base_new();
    TAILQ_INIT(&common.connections);
    check(common.base && address_book_create(&exempt, &common.addresses) == STATUS_OK &&
          http_outbox_create(&common.limits, NULL, NULL, &common.outbox) == STATUS_OK);
}

/* One turn of the port's thread. */
static void turn(void)
{
    check(event_base_loop(common.base, EVLOOP_NONBLOCK) >= 0);
    struct http_exchange *exchange = http_outbox_take(common.outbox);
    while (exchange) {
        struct http_connection *connection = exchange->connection;
        exchange = http_exchange_unqueue(exchange);
        if (connection) {
            http_connection_advance(connection);
            http_connection_settle(connection);
        }
    }
}

/* The stream that is held goes on, or ends in one of its ways. */
static void go_on(uint8_t how)
{
    if (!held)
        return;
    enum status status = http_exchange_send(held, "event", how % 6u);
    check(status == STATUS_OK || status == STATUS_CANCELLED);
    if (how % 4 == 1)
        http_exchange_end(held);
    if (how % 4 == 2)
        http_exchange_cut(held);
    if (how % 4 == 3) {
        http_exchange_release(held);
        held = NULL;
    }
}

static void hear(int fd, uint64_t *n_heard)
{
    static char bytes[65536];
    ssize_t n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n > 0 && *n_heard == 0)
        check(memcmp(bytes, "HTTP/1.1 ", n < 9 ? (size_t)n : 9) == 0);
    *n_heard += n > 0 ? (uint64_t)n : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    const struct sockaddr_storage at = {.ss_family = AF_UNIX};
    struct http_connection *connection = NULL;
    uint64_t n_heard = 0;
    int fds[2];
    if (!common.base)
        set_up();
    if (n_bytes == 0)
        return 0;
    n_begun = n_ended = 0;
    check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0);
    struct address_entry *address = address_book_enter(common.addresses, NULL);
    check(address &&
          http_connection_create(&common, fds[0], address, &at, &connection) == STATUS_OK);
    http_connection_settle(connection);
    size_t piece = bytes[0] % 2 ? 1 + bytes[0] : (size_t)1 << (bytes[0] % 16);
    for (size_t i = 1; i < n_bytes; i += piece) {
        size_t n = n_bytes - i < piece ? n_bytes - i : piece;
        (void)!send(fds[1], bytes + i, n, MSG_NOSIGNAL);
        turn();
        go_on((uint8_t)(bytes[0] + i));
        if (bytes[0] % 3)
            hear(fds[1], &n_heard);
    }
    for (int i = 0; i < 4; i++) {
        turn();
        hear(fds[1], &n_heard);
    }
    close(fds[1]);
    http_exchange_release(held);
    held = NULL;
    for (int i = 0; common.n_connections > 0; i++) {
        check(i < ROUNDS_MAX);
        if (i > 20 &&
            common.connections.tqh_first->is_reading == false) /* it looks once a second */
            http_connection_destroy(TAILQ_FIRST(&common.connections));
        turn();
    }
    check(n_ended == n_begun && common.n_running == 0 &&
          http_outbox_body_bytes(common.outbox) == 0);
    return 0;
}
