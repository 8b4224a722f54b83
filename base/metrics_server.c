#include "base/metrics_server.h"

#include <assert.h>
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { SILENCE_SECONDS = 10, CONNECTION_BYTES = 16 * 1024 };

struct metrics_server {
    struct metrics_server_options options;
    struct MHD_Daemon *daemon;
};

/* ---- replies ---- */

static enum MHD_Result reply(struct MHD_Connection *connection, unsigned code, const char *type,
                             struct MHD_Response *response)
{
    if (!response)
        return MHD_NO; /* closes the connection */
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    if (code == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    enum MHD_Result result = MHD_queue_response(connection, code, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result reply_literal(struct MHD_Connection *connection, unsigned code,
                                     const char *text)
{
    return reply(
        connection, code, "text/plain; charset=utf-8",
        MHD_create_response_from_buffer(strlen(text), (void *)text, MHD_RESPMEM_PERSISTENT));
}

static enum MHD_Result reply_metrics(const struct metrics_server *server,
                                     struct MHD_Connection *connection)
{
    char *text;
    size_t bytes;
    if (metrics_text(server->options.metrics, &text, &bytes) != STATUS_OK)
        return reply_literal(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory\n");

    struct MHD_Response *response = MHD_create_response_from_buffer(bytes, text,
                                                                    MHD_RESPMEM_MUST_FREE);
    if (!response)
        free(text);
    return reply(connection, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", response);
}

static enum MHD_Result reply_health(const struct metrics_server *server,
                                    struct MHD_Connection *connection)
{
    const struct metrics_server_options *options = &server->options;
    if (!options->is_healthy || options->is_healthy(options->arg))
        return reply_literal(connection, MHD_HTTP_OK, "ok\n");
    return reply_literal(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "not healthy\n");
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *body,
                                  size_t *body_bytes, void **state)
{
    (void)version;
    (void)body;
    const struct metrics_server *server = arg;
    if (!*state) { /* the head is in; a reply here would refuse a body that is still coming */
        *state = connection;
        return MHD_YES;
    }
    if (*body_bytes > 0) {
        *body_bytes = 0; /* read and forgotten */
        return MHD_YES;
    }
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return reply_literal(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "GET or HEAD only\n");
    if (strcmp(url, "/metrics") == 0)
        return reply_metrics(server, connection);
    if (strcmp(url, "/healthz") == 0)
        return reply_health(server, connection);
    return reply_literal(connection, MHD_HTTP_NOT_FOUND, "try /metrics or /healthz\n");
}

/* ---- start and end ---- */

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

static struct MHD_Daemon *start(struct metrics_server *server, const struct addrinfo *address)
{
    unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL;
    if (address->ai_family == AF_INET6)
        flags |= MHD_USE_IPv6;
    return MHD_start_daemon(flags, 0, NULL, NULL, on_request, server, MHD_OPTION_SOCK_ADDR,
                            address->ai_addr, MHD_OPTION_CONNECTION_LIMIT,
                            (unsigned)METRICS_SERVER_CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
                            (unsigned)SILENCE_SECONDS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                            (size_t)CONNECTION_BYTES, MHD_OPTION_END);
}

enum status metrics_server_open(const struct metrics_server_options *options,
                                struct metrics_server **server_out, struct error *error)
{
    assert(options->address && options->metrics);
    struct metrics_server *server = calloc(1, sizeof *server);
    if (!server)
        return STATUS_NO_MEMORY;
    server->options = *options;

    struct addrinfo *address = NULL;
    enum status status = resolve(options->address, &address, error);
    if (status != STATUS_OK)
        goto fail;
    server->daemon = start(server, address);
    freeaddrinfo(address);
    if (!server->daemon) {
        status = error_set(error, STATUS_IO_FAILED, "metrics address %.80s: %s", options->address,
                           strerror(errno));
        goto fail;
    }
    *server_out = server;
    return STATUS_OK;

fail:
    metrics_server_close(server);
    return status;
}

void metrics_server_close(struct metrics_server *server)
{
    if (!server)
        return;
    if (server->daemon)
        MHD_stop_daemon(server->daemon);
    free(server);
}

uint16_t metrics_server_port(const struct metrics_server *server)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(server->daemon,
                                                           MHD_DAEMON_INFO_BIND_PORT);
    assert(info);
    return info->port;
}
