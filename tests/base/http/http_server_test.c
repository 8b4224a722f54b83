/* http_server: its pages over HTTP, on loopback unless told, and idle connections keep nobody out. */

#include "base/http/http_request.h"
#include "base/http/http_server.h"
#include "tests/base/support/loopback.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static atomic_int counted;
static const char *long_text;

static void make_count(void *arg, struct http_answer *answer)
{
    char text[32];
    int n = snprintf(text, sizeof text, "count %d\n", atomic_load((atomic_int *)arg));
    http_answer_set(answer, 200, "text/plain; version=0.0.4", text, (size_t)n);
}

static void make_refusal(void *arg, struct http_answer *answer)
{
    (void)arg;
    http_answer_text(answer, 503, "not ready\n");
}

static void make_long(void *arg, struct http_answer *answer)
{
    http_answer_text(answer, 200, *(const char **)arg);
}

static const struct http_page PAGES[] = {
    {"/metrics", make_count, &counted},
    {"/readyz", make_refusal, NULL},
    {"/long", make_long, &long_text},
};

static enum status try_open(const char *address, struct http_server **server_out,
                            struct error *error)
{
    const struct http_server_options options = {
        .address = address, .pages = PAGES, .n_pages = sizeof PAGES / sizeof *PAGES};
    return http_server_open(&options, server_out, error);
}

static struct http_server *open_server(const char *address)
{
    struct http_server *server;
    struct error error = {0};
    enum status status = try_open(address, &server, &error);
    cr_assert_eq(status, STATUS_OK, "%s", error.text);
    return server;
}

static int connect_to(uint16_t port)
{
    int fd = loopback_connect(AF_INET, port);
    cr_assert_geq(fd, 0);
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

Test(http_server, a_page_is_made_when_it_is_asked_for, .timeout = 60)
{
    struct http_server *server = open_server("127.0.0.1:0");
    uint16_t port = http_server_port(server);
    cr_assert_gt(port, 0);
    expect_reply(port, "GET /metrics", "200", "\r\n\r\ncount 0\n");
    atomic_store(&counted, 41);
    expect_reply(port, "GET /metrics", "200", "\r\n\r\ncount 41\n");
    expect_reply(port, "GET /metrics?format=text", "200",
                 "Content-Type: text/plain; version=0.0.4\r\n");
    expect_reply(port, "GET /metrics", "200", "Content-Length: 9\r\n");
    expect_reply(port, "GET /readyz", "503", "\r\n\r\nnot ready\n");
    http_server_close(server);
}

static bool has_ipv6(void)
{
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    bool has = fd >= 0 && bind(fd, (const struct sockaddr *)&at, sizeof at) == 0;
    if (fd >= 0)
        close(fd);
    return has;
}

/* The listening socket itself says it, so that the machine's default does not. */
static bool is_of_ipv6_alone(uint16_t port)
{
    for (int fd = 3; fd < 200; fd++) {
        struct sockaddr_in6 at = {0};
        socklen_t n = sizeof at, n_is = sizeof(int);
        int is_listening = 0, is_alone = 0;
        if (getsockname(fd, (struct sockaddr *)&at, &n) == 0 && at.sin6_family == AF_INET6 &&
            at.sin6_port == htons(port) &&
            getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &n_is) == 0 && is_listening) {
            cr_assert_eq(getsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &is_alone, &n_is), 0);
            return is_alone;
        }
    }
    cr_assert_fail("no socket listens");
    return true;
}

Test(http_server, any_host_of_ipv6_is_any_of_ipv4_too, .timeout = 60)
{
    if (!has_ipv6())
        cr_skip_test("this machine has no ::1");
    struct http_server *server = open_server("[::]:0");
    uint16_t port = http_server_port(server);
    cr_assert_not(is_of_ipv6_alone(port));
    for (int i = 0; i < 2; i++) {
        int fd = loopback_connect(i ? AF_INET6 : AF_INET, port);
        cr_assert_geq(fd, 0, "family %d", i);
        close(fd);
    }
    http_server_close(server);
    server = open_server("127.0.0.1:0");
    cr_assert_eq(loopback_connect(AF_INET6, http_server_port(server)), -1,
                 "and no other way round");
    http_server_close(server);
}

Test(http_server, lists_its_pages_at_the_root, .timeout = 60)
{
    struct http_server *server = open_server(":0");
    expect_reply(http_server_port(server), "GET /", "200", "\r\n\r\n/metrics\n/readyz\n/long\n");
    http_server_close(server);
}

Test(http_server, answers_nothing_else, .timeout = 60)
{
    struct http_server *server = open_server(":0");
    uint16_t port = http_server_port(server);
    expect_reply(port, "GET /no", "404", "no such page; / lists them");
    expect_reply(port, "GET /metrics/../etc/passwd", "404", "no such page");
    expect_reply(port, "DELETE /metrics", "405", "Allow: GET, HEAD\r\n");
    expect_reply(port, "get /metrics", "400", "");
    expect_reply(port, "GET metrics", "400", "");
    expect_reply(port, "GET", "400", "");
    expect_reply(port, "nonsense", "400", "");

    char *reply = fetch(port,
                        "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello");
    cr_expect_eq(strncmp(reply, "HTTP/1.1 405", 12), 0, "%s", reply);
    free(reply);
    reply = fetch(port, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    cr_expect_eq(strncmp(reply, "HTTP/1.1 400", 12), 0, "%s", reply);
    free(reply);
    http_server_close(server);
}

Test(http_server, a_head_alone_has_no_body, .timeout = 60)
{
    struct http_server *server = open_server("127.0.0.1:0");
    char *reply = fetch(http_server_port(server), "HEAD /readyz HTTP/1.0\r\n\r\n");
    cr_expect_eq(strncmp(reply, "HTTP/1.1 503", 12), 0, "%s", reply);
    cr_expect(strstr(reply, "Content-Length: 10\r\n"), "%s", reply);
    cr_expect_str_eq(reply + strlen(reply) - 4, "\r\n\r\n");
    free(reply);
    http_server_close(server);
}

Test(http_server, a_head_may_come_in_pieces_and_has_a_bound, .timeout = 60)
{
    struct http_server *server = open_server("127.0.0.1:0");
    uint16_t port = http_server_port(server);
    int fd = connect_to(port);
    static const char head[] = "GET /metrics HTTP/1.1\r\nX: y\r\n\r\n";
    for (const char *byte = head; *byte; byte++)
        cr_assert_eq(send(fd, byte, 1, MSG_NOSIGNAL), 1);
    cr_assert_eq(shutdown(fd, SHUT_WR), 0, "a peer that only reads");
    char reply[512] = "";
    cr_assert_gt(recv(fd, reply, sizeof reply - 1, 0), 0);
    cr_expect_eq(strncmp(reply, "HTTP/1.1 200", 12), 0, "%s", reply);
    close(fd);

    char *request = calloc(1, 100000);
    memset(request, 'a', 90000);
    memcpy(request, "GET /metrics HTTP/1.1\r\nX: ", 26);
    char *refusal = fetch(port, request);
    cr_expect_eq(strncmp(refusal, "HTTP/1.1 431", 12), 0, "%s", refusal);
    free(refusal);
    free(request);
    http_server_close(server);
}

/* Waits until the peer has closed; false when it sent something first. */
static bool is_closed(int fd)
{
    char byte;
    ssize_t n = recv(fd, &byte, 1, 0);
    return n == 0 || (n < 0 && errno == ECONNRESET);
}

Test(http_server, idle_connections_keep_nobody_out, .timeout = 60)
{
    struct http_server *server = open_server("127.0.0.1:0");
    uint16_t port = http_server_port(server);
    int fds[HTTP_SERVER_CONNECTIONS_MAX];
    for (unsigned i = 0; i < HTTP_SERVER_CONNECTIONS_MAX; i++) {
        fds[i] = connect_to(port);
        cr_assert_eq(send(fds[i], "GET /", 5, MSG_NOSIGNAL), 5);
    }
    expect_reply(port, "GET /metrics", "200", "count 0");
    cr_expect(is_closed(fds[0]), "the oldest made room");

    static const char rest[] = "metrics HTTP/1.1\r\n\r\n";
    cr_assert_eq(send(fds[1], rest, strlen(rest), MSG_NOSIGNAL), (ssize_t)strlen(rest));
    cr_expect_not(is_closed(fds[1]), "the others stay");
    for (unsigned i = 0; i < HTTP_SERVER_CONNECTIONS_MAX; i++)
        close(fds[i]);
    http_server_close(server);
}

Test(http_server, idle_connections_are_closed_by_and_by, .timeout = 60)
{
    struct http_server *server = open_server("127.0.0.1:0");
    int fd = connect_to(http_server_port(server));
    cr_assert_eq(send(fd, "GET /", 5, MSG_NOSIGNAL), 5);
    cr_expect(is_closed(fd));
    close(fd);
    http_server_close(server);
}

Test(http_server, readers_that_stop_hold_up_nobody, .timeout = 60)
{
    char *text = malloc((16 << 20) + 1);
    memset(text, 'x', 16 << 20);
    text[16 << 20] = '\0';
    long_text = text;
    struct http_server *server = open_server("127.0.0.1:0");
    uint16_t port = http_server_port(server);
    int fds[4];
    for (unsigned i = 0; i < 4; i++) {
        static const char request[] = "GET /long HTTP/1.1\r\n\r\n";
        fds[i] = connect_to(port);
        cr_assert_eq(send(fds[i], request, strlen(request), MSG_NOSIGNAL),
                     (ssize_t)strlen(request));
        char byte;
        cr_assert_eq(recv(fds[i], &byte, 1, 0), 1);
    }
    expect_reply(port, "GET /metrics", "200", "count 0");
    for (unsigned i = 0; i < 4; i++)
        close(fds[i]);
    http_server_close(server);
    free(text);
}

/* Nobody in this process gets a descriptor while it holds; returns the limit that was. */
static struct rlimit use_up_descriptors(void)
{
    struct rlimit limit, none;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    int lowest = dup(STDERR_FILENO);
    none = limit;
    none.rlim_cur = (rlim_t)lowest;
    close(lowest);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    return limit;
}

static void ask(int fd, uint16_t port)
{
    static const char request[] = "GET /metrics HTTP/1.1\r\n\r\n";
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    cr_assert_eq(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
    cr_assert_eq(send(fd, request, strlen(request), MSG_NOSIGNAL), (ssize_t)strlen(request));
}

Test(http_server, without_a_descriptor_the_oldest_makes_room_or_one_waits, .timeout = 60)
{
    struct http_server *server = open_server("127.0.0.1:0");
    uint16_t port = http_server_port(server);
    int idle = connect_to(port);
    expect_reply(port, "GET /metrics", "200", "count 0"); /* so idle is accepted, too */
    int first = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int second = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    struct rlimit limit = use_up_descriptors();
    ask(first, port);
    cr_expect(is_closed(idle));
    cr_expect_not(is_closed(first), "it has the idle one's place");
    close(first); /* and leaves it when the server has seen that, or to the next one */
    use_up_descriptors();
    ask(second, port);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    cr_expect_not(is_closed(second));
    close(second);
    close(idle);
    http_server_close(server);
}

Test(http_server, says_what_is_wrong_with_an_address)
{
    static const char *const bad[] = {
        "", "localhost", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:70000", "no.such.host.invalid:1"};
    struct http_server *server;
    struct error error;
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_expect_eq(try_open(bad[i], &server, &error), STATUS_INVALID_ARGUMENT, "%s", bad[i]);
        cr_expect(strstr(error.text, "metrics address \""), "%s", error.text);
    }
}

Test(http_server, a_taken_port_is_reported)
{
    struct http_server *server = open_server("127.0.0.1:0"), *second;
    struct error error;
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%u", http_server_port(server));
    cr_expect_eq(try_open(address, &second, &error), STATUS_IO_FAILED);
    cr_expect(strstr(error.text, "in use"), "%s", error.text);
    http_server_close(server);
}

Test(http_request, takes_the_method_and_the_path_and_nothing_else)
{
    static const char head[] = "HEAD /healthz?a=/b HTTP/1.0\r\nHost: x\r\n\r\n";
    struct http_request request;
    cr_assert(http_request_parse(head, strlen(head), &request));
    cr_expect_eq(request.method, HTTP_HEAD);
    cr_expect_str_eq(request.path, "/healthz");
    for (size_t n = 0; n < strcspn(head, "\n") + 1; n++)
        cr_expect_not(http_request_parse(head, n, &request), "%zu bytes", n);

    char far[200];
    snprintf(far, sizeof far, "PUT /%0100d HTTP/1.1\r\n", 0);
    cr_assert(http_request_parse(far, strlen(far), &request));
    cr_expect_eq(request.method, HTTP_OTHER);
    cr_expect_str_eq(request.path, "");
}
