/* http_port: what one client may do is bounded, in count, bytes and time, and the others are answered. */

#include "base/clock.h"
#include "tests/api/support/http_bed.h"

#include <criterion/criterion.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define HOST "Host: x\r\n"
#define GET  "GET /hello HTTP/1.1\r\n" HOST "\r\n"
#define LAST "GET /hello HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n"
#define HOLD "GET /hold HTTP/1.1\r\n" HOST "\r\n"

#define SHORT_NS (200 * NS_PER_MS)

static struct http_limits *limits;

static void prepare(void)
{
    http_bed_prepare();
    limits = &http_bed.options.limits;
}

TestSuite(http_limits, .init = prepare, .fini = http_bed_stop, .timeout = 120);

static const struct http_answer_head OK_HEAD = {.code = 200};

static void expect_answer(int fd, const char *part)
{
    char *heard = http_bed_hear_all(fd);
    cr_expect(strstr(heard, part), "no \"%s\" in \"%.300s\"", part, heard);
    free(heard);
    close(fd);
}

/* ---- bytes ---- */

Test(http_limits, a_head_that_is_too_long_is_refused_by_its_kind)
{
    static char request[40000];
    http_bed_start();
    snprintf(request, sizeof request, "GET /%09000d HTTP/1.1\r\n" HOST "\r\n", 0);
    http_bed_expect(request, 414, "8192 bytes");
    snprintf(request, sizeof request, "GET / HTTP/1.1\r\n" HOST "X: %020000d\r\n\r\n", 0);
    http_bed_expect(request, 431, "16384 bytes");
    size_t n = (size_t)snprintf(request, sizeof request, "GET / HTTP/1.1\r\n" HOST);
    for (int i = 0; i < 2000; i++)
        n += (size_t)snprintf(request + n, sizeof request - n, "a: b\r\n");
    http_bed_expect(request, 431, "100 header fields");
    cr_expect_eq(http_bed_struck(HTTP_LIMIT_HEAD), 3);
}

Test(http_limits, a_body_that_is_too_long_is_refused_when_that_is_known)
{
    limits->body_bytes_max = 1000;
    http_bed_start();
    http_bed_expect("POST /echo HTTP/1.1\r\n" HOST "Content-Length: 1001\r\n\r\n", 413,
                    "1000 bytes");
    http_bed_expect("POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n3e9\r\n", 413,
                    "1000 bytes");
    http_bed_expect("POST /echo HTTP/1.1\r\n" HOST
                    "Transfer-Encoding: chunked\r\n\r\nfffffffffffffff\r\n",
                    413, "1000 bytes");
    cr_expect_eq(http_bed_struck(HTTP_LIMIT_BODY), 3);
    cr_expect_eq(http_bed_n_calls(), 0);
}

/* POST of n_length bytes of which n come. */
static int begin_body(uint8_t last, size_t n_length, size_t n)
{
    char head[128];
    char *bytes = calloc(1, n + 1);
    int fd = http_bed_connect(last);
    snprintf(head, sizeof head, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: %zu\r\n\r\n",
             n_length);
    http_bed_say(fd, head);
    http_bed_say_bytes(fd, bytes, n);
    free(bytes);
    return fd;
}

Test(http_limits, large_bodies_share_a_room_and_small_ones_need_none)
{
    limits->bodies_bytes_max = 1 << 20;
    http_bed_start();
    int first = begin_body(1, 900 << 10, 800 << 10);
    while (counter_value(http_bed.http_metrics.received_bytes) < 800 << 10)
        (void)poll(NULL, 0, 1);
    int second = begin_body(2, 900 << 10, 800 << 10);
    expect_answer(second, "HTTP/1.1 503 Service Unavailable\r\n");
    int small = begin_body(3, 60000, 60000);
    free(http_bed_hear_until(small, "HTTP/1.1 200"));
    cr_expect_eq(http_bed_struck(HTTP_LIMIT_BODIES), 1);
    close(first), close(small);
    while (gauge_value(http_bed.http_metrics.connections) > 0)
        (void)poll(NULL, 0, 1);
    int third = begin_body(4, 900 << 10, 900 << 10);
    free(http_bed_hear_until(third, "HTTP/1.1 200"));
    close(third);
}

Test(http_limits, an_address_has_a_part_of_that_room)
{
    limits->address_bodies_bytes_max = 1 << 20;
    http_bed_start();
    int first = begin_body(1, 900 << 10, 800 << 10);
    while (counter_value(http_bed.http_metrics.received_bytes) < 800 << 10)
        (void)poll(NULL, 0, 1);
    int second = begin_body(1, 900 << 10, 800 << 10);
    expect_answer(second, "HTTP/1.1 429 Too Many Requests\r\n");
    int other = begin_body(2, 900 << 10, 900 << 10);
    free(http_bed_hear_until(other, "HTTP/1.1 200"));
    cr_expect_eq(http_bed_struck(HTTP_LIMIT_ADDRESS_BODIES), 1);
    close(first), close(other);
}

/* ---- count ---- */

Test(http_limits, requests_beyond_the_most_hear_when_to_come_again)
{
    limits->requests_max = 2;
    http_bed_start();
    int fds[2] = {http_bed_connect(1), http_bed_connect(2)};
    http_bed_say(fds[0], HOLD);
    http_bed_say(fds[1], HOLD);
    (void)http_bed_held(1);
    http_bed_expect(LAST, 503, "Retry-After: 1\r\n");
    int kept = http_bed_connect(1);
    http_bed_say(kept, GET);
    free(http_bed_hear_until(kept, "HTTP/1.1 503"));
    cr_assert_eq(http_exchange_reply(http_bed_held(0), &OK_HEAD, "", 0), STATUS_OK);
    http_bed_wait_ends(1);
    http_bed_say(kept, GET);
    free(http_bed_hear_until(kept, "hello"));
    close(kept), close(fds[0]), close(fds[1]);
}

Test(http_limits, an_address_has_its_own_most_of_requests)
{
    limits->address_requests_max = 1;
    http_bed_start();
    int fd = http_bed_connect(1);
    http_bed_say(fd, HOLD);
    (void)http_bed_held(0);
    http_bed_expect(LAST, 429, "Retry-After: 1\r\n");
    int other = http_bed_connect(2);
    http_bed_say(other, LAST);
    expect_answer(other, "hello");
    close(fd);
}

Test(http_limits, connections_of_one_address_are_bounded_unless_it_is_exempt)
{
    int fds[6];
    limits->address_connections_max = 4;
    limits->exempt = "127.0.0.9";
    http_bed_start();
    for (int i = 0; i < 5; i++)
        fds[i] = http_bed_connect(1);
    expect_answer(fds[4], "HTTP/1.1 429 Too Many Requests\r\n");
    for (int i = 0; i < 4; i++)
        close(fds[i]);
    for (int i = 0; i < 6; i++)
        fds[i] = http_bed_connect(9);
    for (int i = 0; i < 6; i++) {
        http_bed_say(fds[i], LAST);
        expect_answer(fds[i], "hello");
    }
    cr_expect_eq(http_bed_struck(HTTP_LIMIT_ADDRESS_CONNECTIONS), 1);
}

Test(http_limits, an_address_that_connects_too_often_is_refused_for_a_while)
{
    bool is_refused = false;
    limits->address_connections_per_s = 2; /* 6 at once */
    http_bed_start();
    int n = 0;
    for (; n < 1000 && !is_refused; n++) { /* as fast as this machine is */
        int fd = http_bed_connect(1);
        http_bed_say(fd, LAST);
        char *heard = http_bed_hear_all(fd);
        is_refused = strncmp(heard, "HTTP/1.1 429", 12) == 0;
        cr_expect(is_refused || strstr(heard, "hello"), "%s", heard);
        free(heard);
        close(fd);
    }
    cr_expect(is_refused && n > 6, "%d", n);
    int fd = http_bed_connect(2);
    http_bed_say(fd, LAST);
    expect_answer(fd, "hello");
}

Test(http_limits, a_request_under_way_gives_way_to_no_address_with_as_many)
{
    limits->connections_max = 2;
    http_bed_start();
    int halves[2] = {begin_body(1, 1000, 10), begin_body(2, 1000, 10)};
    static const char HEAD[] = "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 1000\r\n\r\n";
    while (counter_value(http_bed.http_metrics.received_bytes) < 2 * (sizeof HEAD - 1 + 10))
        (void)poll(NULL, 0, 1);
    int newcomer = http_bed_connect(3);
    expect_answer(newcomer, "HTTP/1.1 503");
    for (int i = 0; i < 2; i++) {
        static const char REST[990];
        http_bed_say_bytes(halves[i], REST, sizeof REST);
        free(http_bed_hear_until(halves[i], "HTTP/1.1 200"));
        close(halves[i]);
    }
}

Test(http_limits, at_a_full_port_an_idle_connection_of_the_largest_crowd_gives_way)
{
    int crowd[8], busy, newcomer;
    limits->connections_max = 9;
    http_bed_start();
    busy = http_bed_connect(2);
    http_bed_say(busy, HOLD);
    struct http_exchange *held = http_bed_held(0);
    for (int i = 0; i < 8; i++)
        crowd[i] = http_bed_connect(1);
    while (gauge_value(http_bed.http_metrics.connections) < 9)
        (void)poll(NULL, 0, 1);
    newcomer = http_bed_connect(3);
    http_bed_say(newcomer, LAST);
    expect_answer(newcomer, "hello");
    cr_expect(http_bed_is_closed(crowd[0]), "the oldest of them");
    cr_assert_eq(http_exchange_reply(held, &OK_HEAD, "still here", 10), STATUS_OK);
    free(http_bed_hear_until(busy, "still here"));
    for (int i = 0; i < 8; i++)
        close(crowd[i]);
    close(busy);
}

Test(http_limits, an_exempt_address_gives_nobody_else_a_place)
{
    int proxy[4];
    limits->connections_max = 4;
    limits->exempt = "127.0.0.9";
    http_bed_start();
    for (int i = 0; i < 4; i++)
        proxy[i] = http_bed_connect(9);
    while (gauge_value(http_bed.http_metrics.connections) < 4)
        (void)poll(NULL, 0, 1);
    http_bed_expect(LAST, 503, "too many connections");
    for (int i = 0; i < 4; i++) {
        http_bed_say(proxy[i], LAST);
        expect_answer(proxy[i], "hello");
    }
}

Test(http_limits, a_port_full_of_requests_answers_503)
{
    limits->connections_max = 2;
    http_bed_start();
    int fds[2] = {http_bed_connect(1), http_bed_connect(2)};
    for (int i = 0; i < 2; i++)
        http_bed_say(fds[i], HOLD);
    (void)http_bed_held(1);
    http_bed_expect(LAST, 503, "too many connections");
    close(fds[0]), close(fds[1]);
}

/* ---- time ---- */

static void say_comment(void *arg)
{
    struct http_exchange *exchange = arg;
    (void)!http_exchange_begin(exchange, &OK_HEAD);
    cr_expect_eq(http_exchange_send(exchange, "quiet!", 6), STATUS_OK);
}

Test(http_limits, who_answers_hears_of_each_time_in_which_nothing_was_sent)
{
    limits->quiet_ns = SHORT_NS;
    http_bed_start();
    int fd = http_bed_connect(1);
    http_bed_say(fd, HOLD);
    struct http_exchange *held = http_bed_held(0);
    http_exchange_on_quiet(held, say_comment, held);
    free(http_bed_hear_until(fd, "quiet!\r\n"));
    free(http_bed_hear_until(fd, "quiet!\r\n"));
    cr_assert_eq(http_exchange_send(held, "more", 4), STATUS_OK);
    free(http_bed_hear_until(fd, "more\r\n"));
    free(http_bed_hear_until(fd, "quiet!\r\n"));
    http_exchange_end(held);
    free(http_bed_hear_until(fd, "0\r\n\r\n"));
    http_bed_wait_ends(1);
    cr_expect_eq(http_bed_last_end(), STATUS_OK);
    close(fd);
}

Test(http_limits, a_client_that_leaves_ends_the_quiet_times_too)
{
    limits->quiet_ns = SHORT_NS;
    http_bed_start();
    int fd = http_bed_connect(1);
    http_bed_say(fd, HOLD);
    struct http_exchange *held = http_bed_held(0);
    http_exchange_on_quiet(held, say_comment, held);
    free(http_bed_hear_until(fd, "quiet!\r\n"));
    close(fd);
    http_bed_wait_ends(1);
    cr_expect_eq(http_bed_last_end(), STATUS_CANCELLED);
}

Test(http_limits, who_says_nothing_or_half_a_head_loses_the_connection)
{
    limits->head_ns = SHORT_NS;
    http_bed_start();
    int silent = http_bed_connect(1), half = http_bed_connect(1), drip = http_bed_connect(1);
    http_bed_say(half, "GET /hello HT");
    http_bed_say(drip, "GET /hello HTTP/1.1\r\nX: ");
    cr_expect(http_bed_is_closed(silent));
    for (int i = 0; i < 2000; i++) { /* a byte now and then gains no time */
        struct pollfd look = {.fd = drip, .events = POLLIN};
        http_bed_say(drip, "a");
        if (poll(&look, 1, 10) > 0)
            break;
    }
    expect_answer(drip, "HTTP/1.1 408 Request Timeout\r\n");
    expect_answer(half, "HTTP/1.1 408 Request Timeout\r\n");
    cr_expect_eq(http_bed_struck(HTTP_LIMIT_HEAD_TIME), 2);
    cr_expect_eq(http_bed_struck(HTTP_LIMIT_IDLE_TIME), 1);
    close(silent);
}

Test(http_limits, who_sends_half_a_body_hears_408)
{
    limits->body_gap_ns = SHORT_NS;
    http_bed_start();
    expect_answer(begin_body(1, 1000, 10), "HTTP/1.1 408 Request Timeout\r\n");
    expect_answer(begin_body(1, 1000, 0), "HTTP/1.1 408 Request Timeout\r\n");
    cr_expect_eq(http_bed_struck(HTTP_LIMIT_BODY_TIME), 2);
}

Test(http_limits, a_body_that_drips_has_a_limit_as_a_whole)
{
    limits->body_gap_ns = 10 * NS_PER_S;
    limits->body_ns = SHORT_NS;
    http_bed_start();
    int fd = begin_body(1, 100000, 1);
    for (int i = 0; i < 2000; i++) {
        struct pollfd look = {.fd = fd, .events = POLLIN};
        http_bed_say(fd, "a");
        if (poll(&look, 1, 10) > 0)
            break;
    }
    expect_answer(fd, "HTTP/1.1 408 Request Timeout\r\n");
}

Test(http_limits, a_connection_that_asks_no_more_is_closed)
{
    limits->idle_ns = SHORT_NS;
    http_bed_start();
    int fd = http_bed_connect(1);
    http_bed_say(fd, GET);
    expect_answer(fd, "hello");
    cr_expect_eq(http_bed_struck(HTTP_LIMIT_IDLE_TIME), 1);
}

/* ---- readers ---- */

/* The network takes a few megabytes of them. */
Test(http_limits, a_reply_that_was_kept_until_its_end_may_wait_to_be_sent)
{
    enum { KEPT = 48 << 20 };
    limits->unsent_bytes_max = 256 << 10;
    http_bed_start();
    int fd = http_bed_connect(1);
    http_bed_say(fd, "GET /flood?keeps=50331648 HTTP/1.1\r\n" HOST "\r\n");
    http_bed_wait_ends(1);
    cr_expect_eq(http_bed.flood_end, STATUS_QUEUE_FULL);
    cr_expect_gt(http_bed.flood_bytes, KEPT);
    close(fd);
}

Test(http_limits, a_stream_is_ended_when_more_than_its_bound_is_unread)
{
    limits->unsent_bytes_max = 256 << 10;
    http_bed_start();
    int fd = http_bed_connect(1);
    http_bed_say(fd, "GET /flood HTTP/1.1\r\n" HOST "\r\n");
    http_bed_wait_ends(1);
    cr_expect_eq(http_bed_last_end(), STATUS_SLOW_READER);
    cr_expect_eq(http_bed.flood_end, STATUS_QUEUE_FULL);
    cr_expect_lt(http_bed.flood_bytes, 48 << 20);
    char *heard = http_bed_hear_all(fd);
    cr_expect_null(strstr(heard, "0\r\n\r\n"));
    free(heard);
    close(fd);
    cr_expect_eq(http_bed_struck(HTTP_LIMIT_UNSENT), 1);
}

Test(http_limits, past_the_bound_of_all_each_stream_is_held_to_its_share)
{
    enum { BYTES = 64 << 10 };
    static char bytes[BYTES];
    limits->requests_max = 16;
    limits->all_unsent_bytes_max = 1 << 20; /* a share: 64 KiB */
    limits->unsent_bytes_max = 16 << 20;
    http_bed_start();
    int greedy = http_bed_connect(1), honest = http_bed_connect(1);
    http_bed_say(greedy, HOLD);
    struct http_exchange *held = http_bed_held(0);
    http_bed_say(honest, HOLD);
    struct http_exchange *other = http_bed_held(1);
    cr_assert_eq(http_exchange_begin(held, &OK_HEAD), STATUS_OK);
    cr_assert_eq(http_exchange_begin(other, &OK_HEAD), STATUS_OK);
    enum status status = STATUS_OK;
    for (int i = 0; i < 10000 && status == STATUS_OK; i++) {
        status = http_exchange_send(held, bytes, BYTES);
        cr_assert_eq(http_exchange_send(other, "tick", 4), STATUS_OK, "%d", i);
    }
    cr_expect_eq(status, STATUS_QUEUE_FULL);
    cr_expect(http_exchange_is_over(held));
    http_exchange_end(other);
    char *heard = http_bed_hear_until(honest, "0\r\n\r\n");
    free(heard);
    close(greedy), close(honest);
}

Test(http_limits, a_reader_that_takes_nothing_loses_its_exchange_in_time)
{
    limits->slow_reader_ns = SHORT_NS;
    http_bed_start();
    char *body = calloc(1, 8 << 20);
    int fd = http_bed_connect(1);
    http_bed_say(fd, HOLD);
    cr_assert_eq(http_exchange_reply(http_bed_held(0), &OK_HEAD, body, 8 << 20), STATUS_OK);
    http_bed_wait_ends(1);
    cr_expect_eq(http_bed_last_end(), STATUS_SLOW_READER);
    cr_expect_eq(http_bed_struck(HTTP_LIMIT_SLOW_READER), 1);
    http_bed_expect(LAST, 200, "hello");
    free(body);
    close(fd);
}

Test(http_limits, a_reader_that_takes_a_little_now_and_then_gains_no_time)
{
    const int room = 4096;
    char bytes[256];
    limits->slow_reader_ns = SHORT_NS;
    http_bed_start();
    char *body = calloc(1, 32 << 20);
    int fd = http_bed_connect(1);
    cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room), 0);
    http_bed_say(fd, HOLD);
    struct http_exchange *held = http_bed_held(0);
    cr_assert_eq(http_exchange_reply(held, &OK_HEAD, body, 32 << 20), STATUS_OK);
    for (int i = 0; i < 4000 && !http_exchange_is_over(held); i++) {
        (void)!recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
        (void)poll(NULL, 0, 5);
    }
    http_bed_wait_ends(1);
    cr_expect_eq(http_bed_last_end(), STATUS_SLOW_READER);
    free(body);
    close(fd);
}

Test(http_limits, a_reply_beyond_its_bound_leaves_the_request_unanswered)
{
    limits->reply_bytes_max = 10;
    http_bed_start();
    int fd = http_bed_connect(1);
    http_bed_say(fd, HOLD);
    struct http_exchange *held = http_bed_held(0);
    cr_expect_eq(http_exchange_reply(held, &OK_HEAD, "elevenbytes", 11), STATUS_REPLY_TOO_LONG);
    http_exchange_refuse(held, 500, 0, "%s", status_text(STATUS_REPLY_TOO_LONG));
    free(http_bed_hear_until(fd, "does not fit"));
    close(fd);
}

Test(http_limits, past_the_bound_of_all_a_long_reply_is_refused)
{
    limits->requests_max = 16;
    limits->all_unsent_bytes_max = 1 << 20;
    http_bed_start();
    char *body = calloc(1, 16 << 20);
    int greedy = http_bed_connect(1), honest = http_bed_connect(1);
    http_bed_say(greedy, HOLD);
    (void)http_bed_held(0);
    http_bed_say(honest, HOLD);
    struct http_exchange *other = http_bed_held(1);
    cr_assert_eq(http_exchange_reply(http_bed_held(0), &OK_HEAD, body, 16 << 20), STATUS_OK);
    cr_expect_eq(http_exchange_reply(other, &OK_HEAD, body, 65 << 10), STATUS_QUEUE_FULL);
    cr_expect_eq(http_exchange_reply(other, &OK_HEAD, "short", 5), STATUS_OK);
    free(http_bed_hear_until(honest, "short"));
    free(body);
    close(greedy), close(honest);
}

/* The port's end of the connection that ends at fd here. */
static int port_end(int fd)
{
    struct sockaddr_in own = {.sin_port = 0}, peer;
    socklen_t n = sizeof own;
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&own, &n), 0);
    for (int other = 3; other < 200; other++) {
        n = sizeof peer;
        if (getpeername(other, (struct sockaddr *)&peer, &n) == 0 && peer.sin_family == AF_INET &&
            peer.sin_port == own.sin_port)
            return other;
    }
    cr_assert_fail("it is not accepted");
    return -1;
}

/* A client that is cut off from the network says nothing: the kernel must be told to ask. */
Test(http_limits, the_kernel_is_to_notice_a_client_that_vanished)
{
    const struct {
        int level, option, value;
    } WANTED[] = {{SOL_SOCKET, SO_KEEPALIVE, 1},
                  {IPPROTO_TCP, TCP_KEEPIDLE, 7},
                  {IPPROTO_TCP, TCP_KEEPINTVL, 7},
                  {IPPROTO_TCP, TCP_USER_TIMEOUT, 3000}};
    limits->keepalive_ns = 7 * NS_PER_S;
    limits->slow_reader_ns = 3 * NS_PER_S;
    http_bed_start();
    int fd = http_bed_connect(1);
    http_bed_say(fd, GET);
    free(http_bed_hear_until(fd, "hello"));
    for (size_t i = 0; i < sizeof WANTED / sizeof *WANTED; i++) {
        int value = 0;
        socklen_t n = sizeof value;
        cr_assert_eq(getsockopt(port_end(fd), WANTED[i].level, WANTED[i].option, &value, &n), 0);
        cr_expect_eq(value, WANTED[i].value, "option %d: %d", WANTED[i].option, value);
    }
    close(fd);
}

/* ---- descriptors ---- */

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

Test(http_limits, a_lack_of_descriptors_refuses_connections_and_passes)
{
    struct sockaddr_storage at;
    socklen_t n = sizeof at;
    http_bed_start();
    int kept = http_bed_connect(1);
    http_bed_say(kept, GET);
    free(http_bed_hear_until(kept, "hello"));
    cr_assert_eq(getpeername(kept, (struct sockaddr *)&at, &n), 0);
    int newcomer = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct rlimit limit = use_up_descriptors();
    cr_assert_eq(connect(newcomer, (struct sockaddr *)&at, n), 0);
    cr_expect(http_bed_is_closed(newcomer), "refused by the descriptor in reserve");
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    http_bed_wait_struck(HTTP_LIMIT_DESCRIPTORS, 1);
    http_bed_expect(LAST, 200, "hello");
    http_bed_say(kept, GET);
    free(http_bed_hear_until(kept, "hello"));
    close(kept), close(newcomer);
}
