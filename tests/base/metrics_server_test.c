/* metrics_server: two pages over HTTP, on loopback unless told, and only so many connections. */

#include "base/metrics_server.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct metrics *metrics;
static struct counter *requests;
static atomic_bool healthy;

static bool is_healthy(void *arg)
{
    return atomic_load((atomic_bool *)arg);
}

static struct metrics_server *open_server(const char *address)
{
    struct metrics_server *server;
    struct error error;
    cr_assert_eq(metrics_create("router", &metrics), STATUS_OK);
    requests = metrics_counter(metrics, "kvferry_requests_total", "", "Requests.");
    const struct metrics_server_options options = {address, metrics, is_healthy, &healthy};
    enum status status = metrics_server_open(&options, &server, &error);
    cr_assert_eq(status, STATUS_OK, "%s", error.text);
    return server;
}

static void close_server(struct metrics_server *server)
{
    metrics_server_close(server);
    metrics_destroy(metrics);
}

static int connect_to(uint16_t port)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

/* The whole reply to one request; caller frees. */
static char *fetch(uint16_t port, const char *request)
{
    enum { REPLY_BYTES = 64 * 1024 };
    char *reply = calloc(1, REPLY_BYTES);
    size_t bytes = 0;
    int fd = connect_to(port);
    cr_assert_eq(send(fd, request, strlen(request), MSG_NOSIGNAL), (ssize_t)strlen(request));
    for (ssize_t n; (n = recv(fd, reply + bytes, REPLY_BYTES - 1 - bytes, 0)) > 0;)
        bytes += (size_t)n;
    close(fd);
    return reply;
}

static void expect_reply(uint16_t port, const char *line, const char *code, const char *part)
{
    char request[200];
    snprintf(request, sizeof request, "%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", line);
    char *reply = fetch(port, request);
    cr_expect_eq(strncmp(reply + strlen("HTTP/1.1 "), code, 3), 0, "%s: %s", line, reply);
    cr_expect(strstr(reply, part), "%s: %s", line, reply);
    free(reply);
}

Test(metrics_server, serves_what_was_counted, .timeout = 60)
{
    struct metrics_server *server = open_server("127.0.0.1:0");
    uint16_t port = metrics_server_port(server);
    cr_assert_gt(port, 0);
    expect_reply(port, "GET /metrics", "200", "\nkvferry_requests_total 0\n");
    counter_add(requests, 41);
    expect_reply(port, "GET /metrics", "200", "\nkvferry_requests_total 41\n");
    expect_reply(port, "GET /metrics", "200", "Content-Type: text/plain; version=0.0.4");
    close_server(server);
}

Test(metrics_server, health_asks_each_time, .timeout = 60)
{
    struct metrics_server *server = open_server(":0");
    uint16_t port = metrics_server_port(server);
    expect_reply(port, "GET /healthz", "503", "not healthy\n");
    atomic_store(&healthy, true);
    expect_reply(port, "GET /healthz", "200", "ok\n");
    close_server(server);
}

Test(metrics_server, answers_nothing_else, .timeout = 60)
{
    struct metrics_server *server = open_server("127.0.0.1:0");
    uint16_t port = metrics_server_port(server);
    expect_reply(port, "GET /", "404", "try /metrics");
    expect_reply(port, "GET /metrics/../etc/passwd", "404", "try /metrics");
    expect_reply(port, "DELETE /metrics", "405", "Allow: GET, HEAD");
    expect_reply(port, "HEAD /metrics", "200", "Content-Length: ");
    expect_reply(port, "nonsense", "400", "");

    char *reply = fetch(port, "POST /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                              "Content-Length: 5\r\n\r\nhello");
    cr_expect_eq(strncmp(reply, "HTTP/1.1 405", 12), 0, "%s", reply);
    free(reply);
    close_server(server);
}

Test(metrics_server, a_head_that_fits_no_buffer_is_refused, .timeout = 60)
{
    struct metrics_server *server = open_server("127.0.0.1:0");
    char *request = calloc(1, 100000);
    memset(request, 'a', 90000);
    memcpy(request, "GET /metrics HTTP/1.1\r\nX: ", 26);
    char *reply = fetch(metrics_server_port(server), request);
    cr_expect(strncmp(reply, "HTTP/1.1 4", 10) == 0 || *reply == '\0', "%s", reply);
    free(reply);
    free(request);
    close_server(server);
}

/* More idle connections than it takes: when they go, it serves again. */
Test(metrics_server, survives_more_connections_than_its_bound, .timeout = 60)
{
    struct metrics_server *server = open_server("127.0.0.1:0");
    uint16_t port = metrics_server_port(server);
    int fds[2 * METRICS_SERVER_CONNECTIONS_MAX];
    for (unsigned i = 0; i < sizeof fds / sizeof *fds; i++)
        fds[i] = connect_to(port);
    for (unsigned i = 0; i < sizeof fds / sizeof *fds; i++)
        close(fds[i]);
    expect_reply(port, "GET /metrics", "200", "kvferry_requests_total");
    close_server(server);
}

Test(metrics_server, says_what_is_wrong_with_an_address)
{
    static const char *const bad[] = {
        "", "localhost", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:70000", "no.such.host.invalid:1"};
    struct metrics_server *server;
    struct error error;
    cr_assert_eq(metrics_create("router", &metrics), STATUS_OK);
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        const struct metrics_server_options options = {bad[i], metrics, NULL, NULL};
        cr_expect_eq(metrics_server_open(&options, &server, &error), STATUS_INVALID_ARGUMENT, "%s",
                     bad[i]);
        cr_expect(strstr(error.text, "metrics address \""), "%s", error.text);
    }
    metrics_destroy(metrics);
}

Test(metrics_server, a_taken_port_is_reported)
{
    struct metrics_server *server = open_server("127.0.0.1:0"), *second;
    struct error error;
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%u", metrics_server_port(server));
    const struct metrics_server_options options = {address, metrics, NULL, NULL};
    cr_expect_eq(metrics_server_open(&options, &second, &error), STATUS_IO_FAILED);
    cr_expect(strstr(error.text, "in use"), "%s", error.text);
    close_server(server);
}
