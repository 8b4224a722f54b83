/* http_port: requests over sockets get the right answers, in order, and each exchange ends exactly once. */

#include "tests/api/support/http_bed.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define HOST  "Host: x\r\n"
#define CLOSE "Connection: close\r\n"

static void start(void)
{
    http_bed_prepare();
    http_bed_start();
}

TestSuite(http_port, .init = start, .fini = http_bed_stop, .timeout = 120);

static uint32_t count_of(const char *text, const char *part)
{
    uint32_t n = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at += strlen(part))
        n++;
    return n;
}

static const struct http_answer_head OK_HEAD = {.code = 200};

/* ---- requests ---- */

Test(http_port, answers_what_its_routes_have)
{
    http_bed_expect("GET /hello HTTP/1.1\r\n" HOST CLOSE "\r\n", 200, "\r\n\r\nhello");
    http_bed_expect("GET /hello HTTP/1.1\r\n" HOST CLOSE "\r\n", 200, "Content-Length: 5\r\n");
    http_bed_expect("GET /items/a%2Fb%20c?q=x%26y&z=1 HTTP/1.1\r\n" HOST CLOSE "X-Word: w\r\n\r\n",
                    200, "rest=a/b c query=4:x&y field=w");
    http_bed_expect("POST /echo HTTP/1.1\r\n" HOST CLOSE "Content-Length: 4\r\n\r\nbody", 200,
                    "\r\n\r\nbody");
    http_bed_expect("POST /echo HTTP/1.1\r\n" HOST CLOSE "Content-Length: 0\r\n\r\n", 200,
                    "Content-Length: 0\r\n");
    http_bed_expect("POST /echo HTTP/1.1\r\n" HOST CLOSE "Transfer-Encoding: chunked\r\n\r\n"
                    "2;x=y\r\nbo\r\n2\r\ndy\r\n0\r\nTrailer: t\r\n\r\n",
                    200, "\r\n\r\nbody");
    http_bed_expect("GET /hello HTTP/1.0\r\n\r\n", 200, "Connection: close\r\n");
    cr_expect(strstr(http_bed.last_peer, "ipv4:127.0.0.1:"), "%s", http_bed.last_peer);
}

Test(http_port_of_unix, is_a_socket_of_this_host, .init = http_bed_prepare, .fini = http_bed_stop,
     .timeout = 60)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char address[sizeof at.sun_path + 8];
    snprintf(at.sun_path, sizeof at.sun_path, "/tmp/kvferry-http-%ld.sock", (long)getpid());
    snprintf(address, sizeof address, "unix:%s", at.sun_path);
    http_bed.options.address = address;
    http_bed_start();
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(connect(fd, (const struct sockaddr *)&at, sizeof at), 0);
    http_bed_say(fd, "GET /hello HTTP/1.1\r\n" HOST CLOSE "\r\n");
    free(http_bed_hear_until(fd, "hello"));
    cr_expect_str_eq(http_bed.last_peer, "unix:");
    cr_expect_eq(http_port_number(http_bed.port), 0);
    close(fd);
}

Test(http_port, says_what_a_request_lacks)
{
    http_bed_expect("GET /nowhere HTTP/1.1\r\n" HOST CLOSE "\r\n", 404, "\"/nowhere\"");
    http_bed_expect("GET /items/ HTTP/1.1\r\n" HOST CLOSE "\r\n", 404, "");
    http_bed_expect("GET /hello/ HTTP/1.1\r\n" HOST CLOSE "\r\n", 404, "");
    http_bed_expect("POST /hello HTTP/1.1\r\n" HOST CLOSE "Content-Length: 1\r\n\r\na", 405,
                    "Allow: GET, HEAD, OPTIONS\r\n");
    http_bed_expect("DELETE /echo HTTP/1.1\r\n" HOST CLOSE "\r\n", 405, "Allow: POST, OPTIONS\r\n");
    http_bed_expect("OPTIONS /echo HTTP/1.1\r\n" HOST CLOSE "\r\n", 204,
                    "Allow: POST, OPTIONS\r\n");
    http_bed_expect("OPTIONS * HTTP/1.1\r\n" HOST CLOSE "\r\n", 204,
                    "Allow: GET, HEAD, POST, OPTIONS\r\n");
    http_bed_expect("BREW /hello HTTP/1.1\r\n" HOST "\r\n", 501, "\"BREW\"");
    http_bed_expect("POST /echo HTTP/1.1\r\n" HOST "\r\n", 411, "Content-Length");
    http_bed_expect("GET /hello HTTP/1.1\r\n\r\n", 400, "without Host");
    http_bed_expect("nonsense\r\n\r\n", 400, "");
    http_bed_expect("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "HTTP/1.1");
    http_bed_expect("\x16\x03\x01\x02", 400, "clear text");
    cr_expect_eq(http_bed_n_calls(), 0);
}

Test(http_port, refuses_what_others_may_read_as_another_request)
{
    static const char *const SMUGGLED[] = {
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /hello "
        "HTTP/1.1\r\n" HOST "\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\nGET /hello "
        "HTTP/1.1\r\n" HOST "\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhelloGET /hello HTTP/1.1\r\n" HOST "\r\n",
        "Content-Length : 5\r\n\r\nhelloGET /hello HTTP/1.1\r\n" HOST "\r\n",
        "X: y\r\n Content-Length: 5\r\n\r\nhelloGET /hello HTTP/1.1\r\n" HOST "\r\n",
        "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\nGET /hello HTTP/1.1\r\n" HOST "\r\n",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhello0\r\n\r\nGET /hello HTTP/1.1\r\n" HOST "\r\n",
        "Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\nGET /hello HTTP/1.1\r\n" HOST
        "\r\n",
        "Content-Length: 5\n\nhelloGET /hello HTTP/1.1\r\n" HOST "\r\n",
    };
    for (size_t i = 0; i < sizeof SMUGGLED / sizeof *SMUGGLED; i++) {
        char request[512];
        snprintf(request, sizeof request, "POST /echo HTTP/1.1\r\n" HOST "%s", SMUGGLED[i]);
        char *answered = http_bed_ask(request);
        cr_expect(strncmp(answered, "HTTP/1.1 4", 10) == 0 ||
                      strncmp(answered, "HTTP/1.1 501", 12) == 0,
                  "%s -> %s", request, answered);
        cr_expect_eq(count_of(answered, "HTTP/1.1 "), 1, "%s -> %s", request, answered);
        cr_expect(strstr(answered, "Connection: close\r\n"), "%s", answered);
        free(answered);
    }
    cr_expect_eq(http_bed_n_calls(), 0);
}

Test(http_port, a_head_request_gets_the_fields_and_no_body)
{
    char *answered = http_bed_ask("HEAD /hello HTTP/1.1\r\n" HOST "\r\n"
                                  "HEAD /nowhere HTTP/1.1\r\n" HOST CLOSE "\r\n");
    cr_expect(strstr(answered, "Content-Length: 5\r\n"), "%s", answered);
    cr_expect_eq(count_of(answered, "HTTP/1.1 "), 2, "%s", answered);
    cr_expect_null(strstr(answered, "hello"));
    cr_expect_str_eq(answered + strlen(answered) - 4, "\r\n\r\n");
    free(answered);
}

Test(http_port, a_connection_is_kept_and_requests_sent_ahead_are_answered_in_order)
{
    static char requests[20000];
    int n = 0;
    for (int i = 0; i < 200; i++)
        n += snprintf(requests + n, sizeof requests - (size_t)n,
                      "GET /items/%d HTTP/1.1\r\n" HOST "%s\r\n", i, i == 199 ? CLOSE : "");
    char *answered = http_bed_ask(requests);
    const char *at = answered;
    for (int i = 0; i < 200; i++) {
        char part[32];
        snprintf(part, sizeof part, "rest=%d query", i);
        at = strstr(at, part);
        cr_assert(at, "%d", i);
    }
    free(answered);
    cr_expect_eq(counter_value(http_bed.http_metrics.accepted), 1);
    cr_expect_eq(counter_value(http_bed.http_metrics.answers[1]), 200);
}

Test(http_port, requests_may_come_byte_by_byte)
{
    static const char REQUEST[] = "\r\nPOST /echo HTTP/1.1\r\n" HOST
                                  "Transfer-Encoding: chunked\r\n\r\n"
                                  "4\r\nbody\r\n0\r\n\r\n"
                                  "POST /echo HTTP/1.1\r\n" HOST CLOSE
                                  "Content-Length: 5\r\n\r\nother";
    int fd = http_bed_connect(1);
    for (const char *byte = REQUEST; *byte; byte++)
        http_bed_say_bytes(fd, byte, 1);
    char *answered = http_bed_hear_all(fd);
    cr_expect_eq(count_of(answered, "HTTP/1.1 200"), 2, "%s", answered);
    cr_expect(strstr(answered, "\r\n\r\nbody"), "%s", answered);
    cr_expect(strstr(answered, "\r\n\r\nother"), "%s", answered);
    free(answered);
    close(fd);
}

Test(http_port, a_client_that_asks_before_it_sends_a_body_is_told_to_go_on_or_not)
{
    int fd = http_bed_connect(1);
    http_bed_say(fd, "POST /echo HTTP/1.1\r\n" HOST
                     "Content-Length: 4\r\nExpect: 100-continue\r\n\r\n");
    free(http_bed_hear_until(fd, "HTTP/1.1 100 Continue\r\n\r\n"));
    http_bed_say(fd, "body");
    free(http_bed_hear_until(fd, "\r\n\r\nbody"));
    http_bed_say(fd, "POST /hello HTTP/1.1\r\n" HOST
                     "Content-Length: 4\r\nExpect: 100-continue\r\n\r\n");
    char *answered = http_bed_hear_all(fd);
    cr_expect_eq(strncmp(answered, "HTTP/1.1 405", 12), 0, "%s", answered);
    cr_expect(strstr(answered, "Connection: close"), "its body is not read");
    free(answered);
    close(fd);
}

/* ---- answers ---- */

Test(http_port, a_stream_is_sent_as_it_comes_from_another_thread)
{
    int fd = http_bed_connect(1);
    http_bed_say(fd, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
    struct http_exchange *held = http_bed_held(0);
    const struct http_field type = {"Content-Type", "text/event-stream\r\nX-Evil: 1"};
    const struct http_answer_head head = {.code = 200, .fields = &type, .n_fields = 1};
    cr_assert_eq(http_exchange_begin(held, &head), STATUS_OK);
    char *heard = http_bed_hear_until(fd, "\r\n\r\n");
    cr_expect(strstr(heard, "Transfer-Encoding: chunked\r\n"), "%s", heard);
    cr_expect(strstr(heard, "Content-Type: text/event-stream??X-Evil: 1\r\n"), "%s", heard);
    cr_expect_null(strstr(heard, "Connection: close"));
    free(heard);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(http_exchange_send(held, "data: x\n\n", 9), STATUS_OK);
        heard = http_bed_hear_until(fd, "9\r\ndata: x\n\n\r\n");
        free(heard);
    }
    cr_expect_not(http_exchange_is_over(held));
    http_exchange_end(held);
    free(http_bed_hear_until(fd, "0\r\n\r\n"));
    http_bed_wait_ends(1);
    cr_expect_eq(http_bed_last_end(), STATUS_OK);
    cr_expect(http_exchange_is_over(held));
    cr_expect_eq(http_exchange_send(held, "late", 4), STATUS_CANCELLED);

    http_bed_say(fd, "GET /hello HTTP/1.1\r\n" HOST "\r\n");
    free(http_bed_hear_until(fd, "hello"));
    close(fd);
}

Test(http_port, a_cut_stream_lacks_its_last_chunk)
{
    int fd = http_bed_connect(1);
    http_bed_say(fd, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
    struct http_exchange *held = http_bed_held(0);
    cr_assert_eq(http_exchange_begin(held, &OK_HEAD), STATUS_OK);
    cr_assert_eq(http_exchange_send(held, "last words", 10), STATUS_OK);
    http_exchange_cut(held);
    http_exchange_end(held);
    char *heard = http_bed_hear_all(fd);
    cr_expect(strstr(heard, "a\r\nlast words\r\n"), "%s", heard);
    cr_expect_null(strstr(heard, "0\r\n\r\n"));
    free(heard);
    http_bed_wait_ends(1);
    cr_expect_eq(http_bed_last_end(), STATUS_CANCELLED);
    cr_expect_eq(counter_value(http_bed.http_metrics.cut), 1);
    close(fd);
}

Test(http_port, a_stream_to_http_1_0_ends_with_the_connection)
{
    int fd = http_bed_connect(1);
    http_bed_say(fd, "GET /hold HTTP/1.0\r\n\r\n");
    struct http_exchange *held = http_bed_held(0);
    cr_assert_eq(http_exchange_begin(held, &OK_HEAD), STATUS_OK);
    cr_assert_eq(http_exchange_send(held, "bytes", 5), STATUS_OK);
    http_exchange_end(held);
    char *heard = http_bed_hear_all(fd);
    cr_expect_null(strstr(heard, "chunked"));
    cr_expect_str_eq(strstr(heard, "\r\n\r\n"), "\r\n\r\nbytes");
    free(heard);
    close(fd);
}

Test(http_port, who_forgets_a_request_answers_500)
{
    http_bed_expect("GET /forget HTTP/1.1\r\n" HOST CLOSE "\r\n", 500, "internal error");
    http_bed_wait_ends(1);
    cr_expect_eq(http_bed_last_end(), STATUS_OK);
}

Test(http_port, only_the_first_answer_counts)
{
    int fd = http_bed_connect(1);
    http_bed_say(fd, "GET /hold HTTP/1.1\r\n" HOST CLOSE "\r\n");
    struct http_exchange *held = http_bed_held(0);
    http_exchange_refuse(held, 429, 7, "wait for %d seconds", 7);
    cr_expect_eq(http_exchange_reply(held, &OK_HEAD, "x", 1), STATUS_CANCELLED);
    cr_expect_eq(http_exchange_begin(held, &OK_HEAD), STATUS_CANCELLED);
    char *heard = http_bed_hear_all(fd);
    cr_expect(strstr(heard, "HTTP/1.1 429 Too Many Requests\r\n"), "%s", heard);
    cr_expect(strstr(heard, "Retry-After: 7\r\n"), "%s", heard);
    cr_expect(strstr(heard, "wait for 7 seconds\n"), "%s", heard);
    cr_expect_eq(count_of(heard, "HTTP/1.1"), 1);
    free(heard);
    close(fd);
}

Test(http_port, a_client_that_leaves_ends_its_exchange)
{
    for (unsigned i = 0; i < 4; i++) {
        int fd = http_bed_connect(1);
        /* Behind bytes that are not read, too. */
        http_bed_say(fd, i % 2 ? "GET /hold HTTP/1.1\r\n" HOST "\r\nGET /hello"
                               : "GET /hold HTTP/1.1\r\n" HOST "\r\n");
        struct http_exchange *held = http_bed_held(i);
        if (i < 2)
            cr_assert_eq(http_exchange_begin(held, &OK_HEAD), STATUS_OK);
        close(fd);
        http_bed_wait_ends(i + 1);
        cr_expect_eq(http_bed_last_end(), STATUS_CANCELLED);
        cr_expect(http_exchange_is_over(held));
        cr_expect_eq(http_exchange_send(held, "x", 1), STATUS_CANCELLED);
    }
    while (counter_value(http_bed.http_metrics.unanswered) < 2)
        (void)poll(NULL, 0, 1); /* counted behind the end */
}

static void note_end(void *arg, enum status why)
{
    *(enum status *)arg = why;
}

Test(http_port, who_asks_after_the_end_is_told_at_once)
{
    enum status why = STATUS_OK;
    int fd = http_bed_connect(1);
    http_bed_say(fd, "GET /hold?quiet HTTP/1.1\r\n" HOST "\r\n");
    struct http_exchange *held = http_bed_held(0);
    close(fd);
    while (!http_exchange_is_over(held))
        (void)poll(NULL, 0, 1);
    http_exchange_on_end(held, note_end, &why);
    cr_expect_eq(why, STATUS_CANCELLED);
    cr_expect_eq(http_exchange_end_status(held), STATUS_CANCELLED);
}

#define N_SENDERS 8
#define N_EVENTS  500

static void *send_events(void *arg)
{
    struct http_exchange *exchange = arg;
    enum status status = http_exchange_begin(exchange, &OK_HEAD);
    for (int i = 0; i < N_EVENTS && status == STATUS_OK; i++) {
        char event[32];
        int n = snprintf(event, sizeof event, "event %03d\n", i);
        status = http_exchange_send(exchange, event, (size_t)n);
    }
    cr_expect_eq(status, STATUS_OK);
    http_exchange_end(exchange);
    return NULL;
}

Test(http_port, many_threads_send_at_once_and_each_stream_is_whole_and_in_order)
{
    int fds[N_SENDERS];
    pthread_t threads[N_SENDERS];
    for (int i = 0; i < N_SENDERS; i++) {
        fds[i] = http_bed_connect(1);
        http_bed_say(fds[i], "GET /hold HTTP/1.1\r\n" HOST CLOSE "\r\n");
    }
    for (uint32_t i = 0; i < N_SENDERS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, send_events, http_bed_held(i)), 0);
    for (int i = 0; i < N_SENDERS; i++) {
        char *heard = http_bed_hear_all(fds[i]);
        const char *at = heard;
        for (int k = 0; k < N_EVENTS; k++) {
            char event[32];
            snprintf(event, sizeof event, "a\r\nevent %03d\n\r\n", k);
            at = strstr(at, event);
            cr_assert(at, "stream %d, event %d", i, k);
        }
        cr_expect(strstr(at, "\r\n0\r\n\r\n"));
        free(heard);
        close(fds[i]);
    }
    for (int i = 0; i < N_SENDERS; i++)
        pthread_join(threads[i], NULL);
    http_bed_wait_ends(N_SENDERS);
}

static void *send_until_over(void *arg)
{
    struct http_exchange *exchange = arg;
    enum status status = http_exchange_begin(exchange, &OK_HEAD);
    while (status == STATUS_OK)
        status = http_exchange_send(exchange, "event", 5);
    cr_expect(http_exchange_is_over(exchange));
    http_exchange_end(exchange);
    return NULL;
}

Test(http_port, threads_may_send_while_their_clients_leave_and_the_port_closes)
{
    int fds[16];
    pthread_t threads[16];
    for (int i = 0; i < 16; i++) {
        fds[i] = http_bed_connect(1);
        http_bed_say(fds[i], "GET /hold HTTP/1.1\r\n" HOST "\r\n");
    }
    for (uint32_t i = 0; i < 16; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, send_until_over, http_bed_held(i)), 0);
    for (int i = 0; i < 8; i++)
        close(fds[i]);
    http_port_close(http_bed.port);
    http_bed.port = NULL;
    for (int i = 0; i < 16; i++)
        pthread_join(threads[i], NULL);
    for (int i = 8; i < 16; i++)
        close(fds[i]);
    http_bed_wait_ends(16);
    cr_expect_eq(http_bed.n_ends, 16, "each once");
}

Test(http_port, a_long_reply_reaches_a_reader_that_takes_its_time)
{
    enum { BYTES = 12 << 20 };
    char *body = malloc(BYTES + 1);
    memset(body, 'y', BYTES);
    body[BYTES] = '\0';
    int fd = http_bed_connect(1);
    http_bed_say(fd, "GET /hold HTTP/1.1\r\n" HOST CLOSE "\r\n");
    struct http_exchange *held = http_bed_held(0);
    cr_assert_eq(http_exchange_reply(held, &OK_HEAD, body, BYTES), STATUS_OK);
    char *heard = http_bed_hear_all(fd);
    cr_expect_str_eq(strstr(heard, "\r\n\r\n") + 4, body);
    free(heard);
    free(body);
    close(fd);
}

Test(http_port, who_says_no_more_may_read_an_answer_to_its_end)
{
    enum { BYTES = 8 << 20 };
    char *body = malloc(BYTES + 1);
    memset(body, 'y', BYTES);
    body[BYTES] = '\0';
    for (uint32_t i = 0; i < 2; i++) {
        int fd = http_bed_connect(1);
        /* Behind bytes that are not read, too. */
        http_bed_say(fd, i ? "GET /hold HTTP/1.1\r\n" HOST "\r\nGET"
                           : "GET /hold HTTP/1.1\r\n" HOST "\r\n");
        struct http_exchange *held = http_bed_held(i);
        cr_assert_eq(http_exchange_reply(held, &OK_HEAD, body, BYTES), STATUS_OK);
        cr_assert_eq(shutdown(fd, SHUT_WR), 0);
        (void)poll(NULL, 0, i ? 1200 : 50); /* it looks once a second who has left */
        char *heard = http_bed_hear_all(fd);
        cr_expect_str_eq(strstr(heard, "\r\n\r\n") + 4, body);
        free(heard);
        http_bed_wait_ends(i + 1);
        cr_expect_eq(http_bed_last_end(), STATUS_OK);
        close(fd);
    }
    free(body);
}

/* ---- the end of the port ---- */

static void *drain(void *arg)
{
    *(bool *)arg = http_port_drain(http_bed.port, 20 * 1000000000ull);
    return NULL;
}

Test(http_port, a_drain_lets_requests_end_and_takes_no_more)
{
    int idle = http_bed_connect(1), busy = http_bed_connect(1), next;
    bool is_drained = false;
    pthread_t thread;
    http_bed_say(idle, "GET /hello HTTP/1.1\r\n" HOST "\r\n");
    free(http_bed_hear_until(idle, "hello"));
    http_bed_say(busy, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
    struct http_exchange *held = http_bed_held(0);
    cr_assert_eq(pthread_create(&thread, NULL, drain, &is_drained), 0);
    cr_expect(http_bed_is_closed(idle));
    next = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_geq(next, 0);
    cr_assert_eq(http_exchange_reply(held, &OK_HEAD, "done", 4), STATUS_OK);
    char *heard = http_bed_hear_all(busy);
    cr_expect(strstr(heard, "Connection: close\r\n"), "%s", heard);
    cr_expect(strstr(heard, "done"), "%s", heard);
    free(heard);
    pthread_join(thread, NULL);
    cr_expect(is_drained);
    close(idle), close(busy), close(next);
}

Test(http_port, a_stream_that_began_before_a_drain_ends_its_connection)
{
    int fd = http_bed_connect(1), idle = http_bed_connect(1);
    bool is_drained = false;
    pthread_t thread;
    http_bed_say(fd, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
    struct http_exchange *held = http_bed_held(0);
    cr_assert_eq(http_exchange_begin(held, &OK_HEAD), STATUS_OK);
    cr_assert_eq(pthread_create(&thread, NULL, drain, &is_drained), 0);
    cr_expect(http_bed_is_closed(idle), "it drains");
    cr_assert_eq(http_exchange_send(held, "still", 5), STATUS_OK);
    http_exchange_end(held);
    char *heard = http_bed_hear_all(fd);
    cr_expect(strstr(heard, "5\r\nstill\r\n0\r\n\r\n"), "%s", heard);
    free(heard);
    pthread_join(thread, NULL);
    cr_expect(is_drained);
    close(fd), close(idle);
}

Test(http_port, a_drain_ends_at_its_limit_and_a_close_cancels)
{
    int fd = http_bed_connect(1);
    http_bed_say(fd, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
    (void)http_bed_held(0);
    cr_expect_not(http_port_drain(http_bed.port, 1000000));
    http_port_close(http_bed.port);
    http_bed.port = NULL;
    http_bed_wait_ends(1);
    cr_expect_eq(http_bed_last_end(), STATUS_CANCELLED);
    cr_expect(http_bed_is_closed(fd));
    close(fd);
}
