#include "base/http/http_server.h"

#include "base/http/http_request.h"
#include "base/log/log.h"
#include "base/wake.h"

#include <assert.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEAD_LIMIT_MS   5000
#define ANSWER_LIMIT_MS 10000
#define LINGER_MS       1000
#define ACCEPT_PAUSE_MS 100 /* when there is no free descriptor and no connection to close */
#define BACKLOG         128

#define SECURITY_HEADERS                                                                           \
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "           \
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "                    \
    "frame-ancestors 'none'\r\n"                                                                   \
    "Cross-Origin-Resource-Policy: same-origin\r\n"                                                \
    "X-Content-Type-Options: nosniff\r\n"                                                          \
    "Referrer-Policy: no-referrer\r\n"

enum phase { PHASE_HEAD, PHASE_ANSWER, PHASE_LINGER };

struct connection {
    struct http_server *server;
    struct bufferevent *stream;
    struct event *limit;
    enum phase phase;
    TAILQ_ENTRY(connection) link;
};

TAILQ_HEAD(connections, connection); /* oldest first */

struct http_server {
    struct http_server_options options;
    struct event_base *base;
    struct evconnlistener *listener;
    struct event *listen_again;
    int stop_fd; /* a wake; -1: none */
    struct event *stop;
    uint16_t port;
    pthread_t thread;
    bool has_thread;
    struct connections connections;
    uint32_t n_connections;
    struct http_feed_readers *readers; /* not among the connections; NULL: no feed */
};

struct http_answer {
    struct evbuffer *out;
    bool has_body; /* no HEAD */
    bool is_set;
};

/* ---- answers ---- */

static const char *reason_phrase(unsigned code)
{
    switch (code) {
    case 200:
        return "OK";
    case 400:
        return "Bad Request";
    case 404:
        return "Not Found";
    case 405:
        return "Method Not Allowed";
    case 421:
        return "Misdirected Request";
    case 431:
        return "Request Header Fields Too Large";
    default:
        return "Service Unavailable";
    }
}

void http_answer_set(struct http_answer *answer, unsigned code, const char *type, const char *text,
                     size_t n)
{
    assert(!answer->is_set);
    answer->is_set = true;
    evbuffer_add_printf(
        answer->out,
        "HTTP/1.1 %u %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
        "Cache-Control: no-store\r\n" SECURITY_HEADERS "Connection: close\r\n%s\r\n",
        code, reason_phrase(code), type, n, code == 405 ? "Allow: GET, HEAD\r\n" : "");
    if (answer->has_body)
        evbuffer_add(answer->out, text, n);
}

void http_answer_text(struct http_answer *answer, unsigned code, const char *text)
{
    http_answer_set(answer, code, "text/plain; charset=utf-8", text, strlen(text));
}

/* One line for each page. */
static void list_pages(const struct http_server *server, struct http_answer *answer)
{
    struct evbuffer *list = evbuffer_new();
    bool is_whole = list;
    for (size_t i = 0; is_whole && i < server->options.n_pages; i++)
        is_whole = evbuffer_add_printf(list, "%s\n", server->options.pages[i].path) > 0;
    const char *text = is_whole ? (const char *)evbuffer_pullup(list, -1) : NULL;
    if (text)
        http_answer_set(answer, 200, "text/plain; charset=utf-8", text, evbuffer_get_length(list));
    else
        http_answer_text(answer, 503, "out of memory\n");
    if (list)
        evbuffer_free(list);
}

static void make_answer(const struct http_server *server, const struct http_request *request,
                        struct http_answer *answer)
{
    if (request->method == HTTP_OTHER) {
        http_answer_text(answer, 405, "GET or HEAD only\n");
        return;
    }
    for (size_t i = 0; i < server->options.n_pages; i++) {
        const struct http_page *page = &server->options.pages[i];
        if (strcmp(page->path, request->path) == 0) {
            page->make(page->arg, answer);
            assert(answer->is_set);
            return;
        }
    }
    if (strcmp(request->path, "/") == 0)
        list_pages(server, answer);
    else
        http_answer_text(answer, 404, "no such page; / lists them\n");
}

/* ---- one connection ---- */

static void connection_close(struct connection *connection)
{
    struct http_server *server = connection->server;
    assert(server->n_connections > 0);
    TAILQ_REMOVE(&server->connections, connection, link);
    server->n_connections--;
    if (connection->limit)
        event_free(connection->limit);
    if (connection->stream)
        bufferevent_free(connection->stream);
    free(connection);
}

static void enter(struct connection *connection, enum phase phase, unsigned limit_ms)
{
    assert(phase >= connection->phase); /* phases only advance */
    connection->phase = phase;
    const struct timeval limit = {.tv_sec = limit_ms / 1000, .tv_usec = limit_ms % 1000 * 1000};
    event_add(connection->limit, &limit);
}

static void on_limit(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    connection_close(arg);
}

/* Further input is read and discarded: an earlier close would reset the connection before the peer
 * has read the answer. */
static void on_written(struct bufferevent *stream, void *arg)
{
    struct connection *connection = arg;
    if (connection->phase != PHASE_ANSWER)
        return;
    shutdown(bufferevent_getfd(stream), SHUT_WR);
    enter(connection, PHASE_LINGER, LINGER_MS);
}

/* ---- the feed ---- */

static bool is_feed(const struct http_server *server, const struct http_request *request)
{
    return server->readers && request->method == HTTP_GET &&
           strcmp(request->path, server->options.feed->path) == 0;
}

/* It leaves the connections, so that neither their number nor a newer one ends it. */
static void start_reading(struct connection *connection)
{
    struct http_feed_readers *readers = connection->server->readers;
    struct bufferevent *stream = connection->stream;
    connection->stream = NULL;
    connection_close(connection);
    evbuffer_add_printf(bufferevent_get_output(stream),
                        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                        "Cache-Control: no-store\r\n" SECURITY_HEADERS "Connection: close\r\n\r\n");
    http_feed_readers_add(readers, stream);
}

/* The connection may be gone then. */
static void answer_reader(struct connection *connection, const struct http_request *request,
                          struct http_answer *answer)
{
    const struct http_server *server = connection->server;
    const struct http_feed *feed = server->options.feed;
    if (feed->is_local && !request->is_local)
        http_answer_text(answer, 421,
                         "ask by an address or as localhost: this port is for this machine\n");
    else if (http_feed_readers_is_full(server->readers))
        http_answer_text(answer, 503, "as many readers as there may be\n");
    else
        start_reading(connection);
}

/* ---- requests ---- */

/* The connection may be gone then. */
static void answer_head(struct connection *connection, const char *head, size_t n)
{
    struct http_request request = {.method = HTTP_GET};
    struct http_answer answer = {.out = bufferevent_get_output(connection->stream),
                                 .has_body = true};
    enter(connection, PHASE_ANSWER, ANSWER_LIMIT_MS);
    if (n == 0) {
        http_answer_text(&answer, 431, "the head is too long\n");
    } else if (!http_request_parse(head, n, &request)) {
        http_answer_text(&answer, 400, "no HTTP/1 request\n");
    } else {
        answer.has_body = request.method != HTTP_HEAD;
        if (is_feed(connection->server, &request))
            answer_reader(connection, &request, &answer);
        else
            make_answer(connection->server, &request, &answer);
    }
}

static void on_readable(struct bufferevent *stream, void *arg)
{
    struct connection *connection = arg;
    struct evbuffer *in = bufferevent_get_input(stream);
    size_t n = evbuffer_get_length(in);
    if (connection->phase == PHASE_HEAD) {
        struct evbuffer_ptr end = evbuffer_search(in, "\r\n\r\n", 4, NULL);
        if (end.pos < 0 && n < HTTP_SERVER_HEAD_BYTES_MAX)
            return;
        size_t head_bytes = end.pos < 0 ? 0 : (size_t)end.pos + 4;
        answer_head(connection, (const char *)evbuffer_pullup(in, (ev_ssize_t)head_bytes),
                    head_bytes);
    }
    evbuffer_drain(in, n);
}

static void on_end(struct bufferevent *stream, short what, void *arg)
{
    struct connection *connection = arg;
    (void)stream;
    /* A peer that has shut down its sending side may still read. */
    bool is_half_closed = (what & BEV_EVENT_EOF) && connection->phase == PHASE_ANSWER;
    if (!is_half_closed)
        connection_close(connection);
}

static void on_accepted(struct evconnlistener *listener, evutil_socket_t fd,
                        struct sockaddr *address, int address_bytes, void *arg)
{
    (void)listener;
    (void)address;
    (void)address_bytes;
    struct http_server *server = arg;
    while (server->n_connections >= HTTP_SERVER_CONNECTIONS_MAX)
        connection_close(TAILQ_FIRST(&server->connections));
    struct connection *connection = calloc(1, sizeof *connection);
    if (!connection) {
        close(fd);
        return;
    }
    connection->server = server;
    TAILQ_INSERT_TAIL(&server->connections, connection, link);
    server->n_connections++;
    connection->stream = bufferevent_socket_new(server->base, fd, BEV_OPT_CLOSE_ON_FREE);
    connection->limit = evtimer_new(server->base, on_limit, connection);
    if (!connection->stream || !connection->limit) {
        if (!connection->stream)
            close(fd);
        connection_close(connection);
        return;
    }
    bufferevent_setcb(connection->stream, on_readable, on_written, on_end, connection);
    bufferevent_setwatermark(connection->stream, EV_READ, 0, HTTP_SERVER_HEAD_BYTES_MAX);
    enter(connection, PHASE_HEAD, HEAD_LIMIT_MS);
    bufferevent_enable(connection->stream, EV_READ | EV_WRITE);
}

/* ---- the listener ---- */

static void on_listen_again(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    const struct http_server *server = arg;
    evconnlistener_enable(server->listener);
}

/* Mostly: no free descriptor, which accept needs even when no connection waits. Without a pause the
 * listener would retry in a busy loop. */
static void on_accept_failed(struct evconnlistener *listener, void *arg)
{
    struct http_server *server = arg;
    struct pollfd queue = {.fd = evconnlistener_get_fd(listener), .events = POLLIN};
    const struct timeval pause = {.tv_usec = ACCEPT_PAUSE_MS * 1000};
    if (poll(&queue, 1, 0) == 0)
        return;
    struct connection *oldest = TAILQ_FIRST(&server->connections);
    if (oldest) {
        connection_close(oldest);
        return;
    }
    if (server->readers && http_feed_readers_close_oldest(server->readers))
        return;
    evconnlistener_disable(listener);
    event_add(server->listen_again, &pause);
}

/* "host:port", "[host]:port" or ":port". Caller frees with freeaddrinfo. */
static enum status resolve(const char *address, struct addrinfo **found_out, struct error *error)
{
    char host[256] = "";
    const char *colon = strrchr(address, ':');
    size_t length = colon ? (size_t)(colon - address) : 0;
    bool in_brackets = length >= 2 && address[0] == '[' && address[length - 1] == ']';
    const char *start = in_brackets ? address + 1 : address;
    length -= in_brackets ? 2 : 0;
    if (!colon || length >= sizeof host || strspn(colon + 1, "0123456789") != strlen(colon + 1) ||
        colon[1] == '\0' || strtoul(colon + 1, NULL, 10) > UINT16_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT, "metrics address \"%.80s\" is not %s",
                         address, "HOST:PORT");
    memcpy(host, length ? start : "127.0.0.1", length ? length : sizeof "127.0.0.1");

    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    int code = getaddrinfo(host, colon + 1, &hints, found_out);
    if (code != 0)
        return error_set(error, STATUS_INVALID_ARGUMENT, "metrics address \"%.80s\": %s", address,
                         gai_strerror(code));
    return STATUS_OK;
}

static void read_port(struct http_server *server)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } bound = {.v6 = {0}};
    socklen_t bytes = sizeof bound;
    if (getsockname(evconnlistener_get_fd(server->listener), &bound.any, &bytes) != 0)
        return;
    server->port = ntohs(bound.any.sa_family == AF_INET6 ? bound.v6.sin6_port : bound.v4.sin_port);
}

/* An IPv6 socket also accepts IPv4, whatever the machine's default is (net.ipv6.bindv6only). -1: see errno. */
static int bind_to(const struct addrinfo *address)
{
    const int on = 1, off = 0;
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (address->ai_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, address->ai_addr, address->ai_addrlen) == 0)
        return fd;
    int error_number = errno;
    close(fd);
    errno = error_number;
    return -1;
}

static enum status listen_on(struct http_server *server, struct error *error)
{
    struct addrinfo *address = NULL;
    TRY(resolve(server->options.address, &address, error));
    int fd = bind_to(address);
    if (fd >= 0)
        server->listener = evconnlistener_new(server->base, on_accepted, server,
                                              LEV_OPT_CLOSE_ON_FREE, BACKLOG, fd);
    int error_number = errno;
    freeaddrinfo(address);
    if (!server->listener && fd >= 0)
        close(fd);
    if (!server->listener)
        return error_set(error, STATUS_IO_FAILED, "metrics address %.80s: %s",
                         server->options.address, strerror(error_number));
    evconnlistener_set_error_cb(server->listener, on_accept_failed);
    read_port(server);
    return STATUS_OK;
}

/* ---- start and end ---- */

static void on_stop(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    event_base_loopbreak(arg);
}

static void *serve(void *arg)
{
    const struct http_server *server = arg;
    event_base_dispatch(server->base);
    return NULL;
}

static void log_for_libevent(int severity, const char *message)
{
    if (severity >= EVENT_LOG_WARN)
        log_warn("libevent: %s", message);
    else
        log_debug("libevent: %s", message);
}

static enum status create_events(struct http_server *server)
{
    event_set_log_callback(log_for_libevent);
    server->base = event_base_new();
    server->stop_fd = wake_open();
    if (!server->base || server->stop_fd < 0)
        return STATUS_NO_MEMORY;
    server->stop = event_new(server->base, server->stop_fd, EV_READ, on_stop, server->base);
    server->listen_again = evtimer_new(server->base, on_listen_again, server);
    if (!server->stop || !server->listen_again || event_add(server->stop, NULL) != 0)
        return STATUS_NO_MEMORY;
    const struct http_feed *feed = server->options.feed;
    return feed && feed->readers_max > 0
               ? http_feed_readers_create(server->base, feed, &server->readers)
               : STATUS_OK;
}

enum status http_server_open(const struct http_server_options *options,
                             struct http_server **server_out, struct error *error)
{
    assert(options->address && options->pages);
    assert(!options->feed || options->feed->interval_ms > 0);
    struct http_server *server = calloc(1, sizeof *server);
    if (!server)
        return STATUS_NO_MEMORY;
    server->options = *options;
    server->stop_fd = -1;
    TAILQ_INIT(&server->connections);

    enum status status = create_events(server);
    if (status == STATUS_OK)
        status = listen_on(server, error);
    if (status != STATUS_OK)
        goto fail;
    int failed = pthread_create(&server->thread, NULL, serve, server);
    if (failed) {
        status = error_set(error, STATUS_NO_THREAD, "no thread for metrics: %s", strerror(failed));
        goto fail;
    }
    server->has_thread = true;
    pthread_setname_np(server->thread, "http");
    *server_out = server;
    return STATUS_OK;

fail:
    http_server_close(server);
    return status;
}

void http_server_close(struct http_server *server)
{
    if (!server)
        return;
    if (server->has_thread) {
        wake_send(server->stop_fd);
        pthread_join(server->thread, NULL);
    }
    while (!TAILQ_EMPTY(&server->connections))
        connection_close(TAILQ_FIRST(&server->connections));
    http_feed_readers_destroy(server->readers);
    if (server->listener)
        evconnlistener_free(server->listener);
    if (server->listen_again)
        event_free(server->listen_again);
    if (server->stop)
        event_free(server->stop);
    if (server->base)
        event_base_free(server->base);
    if (server->stop_fd >= 0)
        close(server->stop_fd);
    free(server);
}

uint16_t http_server_port(const struct http_server *server)
{
    return server->port;
}
