#include "tests/api/support/http_bed.h"

#include "base/clock.h"
#include "base/cond.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEAR_MAX (16u << 20)

struct http_bed http_bed;

static const struct http_field TEXT = {"Content-Type", "text/plain"};

/* ---- handlers ---- */

static void count_call(const struct http_exchange *exchange)
{
    struct rpc_peer peer;
    http_exchange_peer_of(exchange, &peer);
    pthread_mutex_lock(&http_bed.lock);
    http_bed.n_calls++;
    snprintf(http_bed.last_peer, sizeof http_bed.last_peer, "%s", peer.address);
    pthread_cond_broadcast(&http_bed.changed);
    pthread_mutex_unlock(&http_bed.lock);
}

static void on_end(void *arg, enum status why)
{
    (void)arg;
    pthread_mutex_lock(&http_bed.lock);
    http_bed.n_ends++;
    http_bed.last_end = why;
    pthread_cond_broadcast(&http_bed.changed);
    pthread_mutex_unlock(&http_bed.lock);
}

static void answer(struct http_exchange *exchange, const void *body, size_t n)
{
    const struct http_answer_head head = {.code = 200, .fields = &TEXT, .n_fields = 1};
    cr_expect_eq(http_exchange_reply(exchange, &head, body, n), STATUS_OK);
}

static void hello(void *arg, struct http_exchange *exchange)
{
    (void)arg;
    count_call(exchange);
    answer(exchange, "hello", 5);
}

static void echo(void *arg, struct http_exchange *exchange)
{
    (void)arg;
    size_t n;
    const char *body = http_exchange_body(exchange, &n);
    count_call(exchange);
    cr_expect_eq(body[n], '\0');
    answer(exchange, body, n);
}

static void items(void *arg, struct http_exchange *exchange)
{
    char text[512], value[64];
    (void)arg;
    count_call(exchange);
    size_t n = http_exchange_query(exchange, "q", value, sizeof value);
    const char *field = http_exchange_field(exchange, "x-word");
    snprintf(text, sizeof text, "rest=%s query=%zu:%s field=%s", http_exchange_path_rest(exchange),
             n, value, field ? field : "-");
    answer(exchange, text, strlen(text));
}

static void forget(void *arg, struct http_exchange *exchange)
{
    (void)arg;
    count_call(exchange);
    http_exchange_on_end(exchange, on_end, NULL);
}

static void hold(void *arg, struct http_exchange *exchange)
{
    (void)arg;
    count_call(exchange);
    char value[8];
    if (http_exchange_query(exchange, "quiet", value, sizeof value) == 0)
        http_exchange_on_end(exchange, on_end, NULL);
    pthread_mutex_lock(&http_bed.lock);
    cr_assert_lt(http_bed.n_held, HTTP_BED_HELD_MAX);
    http_bed.held[http_bed.n_held++] = http_exchange_share(exchange);
    pthread_cond_broadcast(&http_bed.changed);
    pthread_mutex_unlock(&http_bed.lock);
}

static void flood(void *arg, struct http_exchange *exchange)
{
    static char bytes[4096];
    const struct http_answer_head head = {.code = 200};
    (void)arg;
    memset(bytes, 'x', sizeof bytes);
    count_call(exchange);
    http_exchange_on_end(exchange, on_end, NULL);
    char kept[16];
    uint64_t n_sent = 0;
    if (http_exchange_query(exchange, "keeps", kept, sizeof kept) > 0)
        http_exchange_keeps(exchange, strtoull(kept, NULL, 10));
    enum status status = http_exchange_begin(exchange, &head);
    for (; status == STATUS_OK; n_sent += sizeof bytes)
        status = http_exchange_send(exchange, bytes, sizeof bytes);
    pthread_mutex_lock(&http_bed.lock);
    http_bed.flood_bytes = n_sent;
    http_bed.flood_end = status;
    pthread_mutex_unlock(&http_bed.lock);
}

static const struct http_route ROUTES[] = {
    {"/hello", HTTP_VERB_GET, hello, NULL},  {"/echo", HTTP_VERB_POST, echo, NULL},
    {"/items/", HTTP_VERB_GET, items, NULL}, {"/forget", HTTP_VERB_GET, forget, NULL},
    {"/hold", HTTP_VERB_GET, hold, NULL},    {"/flood", HTTP_VERB_GET, flood, NULL},
};

/* ---- the bed ---- */

void http_bed_prepare(void)
{
    memset(&http_bed, 0, sizeof http_bed);
    pthread_mutex_init(&http_bed.lock, NULL);
    cond_init(&http_bed.changed);
    cr_assert_eq(metrics_create("test", &http_bed.metrics), STATUS_OK);
    http_metrics_init(&http_bed.http_metrics, http_bed.metrics);
    http_bed.options = (struct http_port_options){
        .address = "127.0.0.1:0",
        .routes = ROUTES,
        .n_routes = sizeof ROUTES / sizeof *ROUTES,
        .metrics = &http_bed.http_metrics,
    };
    http_limits_init(&http_bed.options.limits);
    /* The tests' own pace. */
    http_bed.options.limits.address_connections_per_s = 100000;
}

void http_bed_start(void)
{
    struct error error = {""};
    cr_assert_eq(http_port_open(&http_bed.options, &error, &http_bed.port), STATUS_OK, "%s",
                 error.text);
}

void http_bed_stop(void)
{
    http_port_close(http_bed.port);
    for (uint32_t i = 0; i < http_bed.n_held; i++) {
        cr_expect(http_exchange_is_over(http_bed.held[i]));
        http_exchange_release(http_bed.held[i]);
    }
    cr_expect_eq(gauge_value(http_bed.http_metrics.connections), 0);
    cr_expect_eq(gauge_value(http_bed.http_metrics.running), 0);
    metrics_destroy(http_bed.metrics);
    pthread_cond_destroy(&http_bed.changed);
    pthread_mutex_destroy(&http_bed.lock);
}

/* Waits until *counter >= n, the lock held on return. */
static void wait_locked(const uint32_t *counter, uint32_t n)
{
    uint64_t until_ns = clock_now_ns() + HTTP_BED_WAIT_MS * NS_PER_MS;
    pthread_mutex_lock(&http_bed.lock);
    while (*counter < n)
        cr_assert(cond_wait_until(&http_bed.changed, &http_bed.lock, until_ns), "%u of %u",
                  *counter, n);
}

struct http_exchange *http_bed_held(uint32_t index)
{
    wait_locked(&http_bed.n_held, index + 1);
    struct http_exchange *held = http_bed.held[index];
    pthread_mutex_unlock(&http_bed.lock);
    return held;
}

void http_bed_wait_ends(uint32_t n)
{
    wait_locked(&http_bed.n_ends, n);
    pthread_mutex_unlock(&http_bed.lock);
}

enum status http_bed_last_end(void)
{
    pthread_mutex_lock(&http_bed.lock);
    enum status status = http_bed.last_end;
    pthread_mutex_unlock(&http_bed.lock);
    return status;
}

uint32_t http_bed_n_calls(void)
{
    pthread_mutex_lock(&http_bed.lock);
    uint32_t n = http_bed.n_calls;
    pthread_mutex_unlock(&http_bed.lock);
    return n;
}

uint64_t http_bed_struck(enum http_limit limit)
{
    return counter_value(http_bed.http_metrics.struck[limit]);
}

void http_bed_wait_struck(enum http_limit limit, uint64_t n)
{
    for (int i = 0; i < HTTP_BED_WAIT_MS / 5 && http_bed_struck(limit) < n; i++)
        (void)poll(NULL, 0, 5);
    cr_assert_geq(http_bed_struck(limit), n, "limit %d", (int)limit);
}

/* ---- clients ---- */

int http_bed_connect(uint8_t last)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct sockaddr_in from = {.sin_family = AF_INET,
                                     .sin_addr.s_addr = htonl(0x7f000000u | last)};
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons(http_port_number(http_bed.port)),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval limit = {.tv_sec = HTTP_BED_WAIT_MS / 1000};
    cr_assert_geq(fd, 0);
    cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    cr_assert_eq(bind(fd, (const struct sockaddr *)&from, sizeof from), 0);
    cr_assert_eq(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

void http_bed_say_bytes(int fd, const void *bytes, size_t n)
{
    for (size_t at = 0; at < n;) {
        ssize_t sent = send(fd, (const char *)bytes + at, n - at, MSG_NOSIGNAL);
        if (sent < 0) /* a refusal may come before all is said */
            return;
        at += (size_t)sent;
    }
}

void http_bed_say(int fd, const char *text)
{
    http_bed_say_bytes(fd, text, strlen(text));
}

static char *hear(int fd, const char *until)
{
    size_t n = 0, room = 65536;
    char *text = malloc(room);
    text[0] = '\0';
    while (!until || !strstr(text, until)) {
        if (n + 1 == room)
            text = realloc(text, room *= 2);
        cr_assert_lt(n, HEAR_MAX);
        ssize_t got = recv(fd, text + n, room - n - 1, 0);
        cr_assert(got >= 0 || errno == ECONNRESET, "silence: \"%s\"", text);
        if (got <= 0)
            break;
        n += (size_t)got;
        text[n] = '\0';
    }
    if (until)
        cr_assert(strstr(text, until), "no \"%s\" in \"%s\"", until, text);
    return text;
}

char *http_bed_hear_all(int fd)
{
    return hear(fd, NULL);
}

char *http_bed_hear_until(int fd, const char *text)
{
    return hear(fd, text);
}

char *http_bed_ask(const char *text)
{
    int fd = http_bed_connect(1);
    http_bed_say(fd, text);
    char *answered = http_bed_hear_all(fd);
    close(fd);
    return answered;
}

void http_bed_expect(const char *text, unsigned code, const char *part)
{
    char line[32];
    char *answered = http_bed_ask(text);
    snprintf(line, sizeof line, "HTTP/1.1 %u ", code);
    cr_expect_eq(strncmp(answered, line, strlen(line)), 0, "%.80s -> %.200s", text, answered);
    cr_expect(strstr(answered, part), "%.80s -> %s: no \"%s\"", text, answered, part);
    free(answered);
}

bool http_bed_is_closed(int fd)
{
    char byte;
    ssize_t n = recv(fd, &byte, 1, 0);
    cr_assert(n >= 0 || errno == ECONNRESET, "silence");
    return n <= 0;
}
