/*
 * http_stream_bench - what the HTTP port adds to an event of a stream, and how many it sends.
 *
 *     http_stream_bench [EVENTS [STREAMS]]
 *
 * added: from http_exchange_send on a thread of its own until a client on the loopback has read the event, one event every
 * 500 us; beside it the same between two threads over a TCP connection without the port. rate: STREAMS streams at once, each
 * from a thread of its own as fast as its client reads. calls: small requests on CALLERS connections that are kept, one after
 * the other on each.
 */
#include "api/http/http_port.h"
#include "base/clock.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define STREAMS_MAX 256
#define EVENT_BYTES 200 /* of a token as JSON */
#define PAUSE_NS    (500 * NS_PER_US)
#define CALLERS     8
#define AHEAD_MAX   1024 /* events of a stream that its client has not read */

static struct http_port *port;
static uint32_t n_events = 4000, n_streams = 32;
static uint64_t *sent_ns; /* [n_events] */
static uint64_t *added_ns;
static _Atomic(struct http_exchange *) opened[STREAMS_MAX];
static atomic_uint n_opened;
static atomic_uint n_read[STREAMS_MAX];

static void must(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "http_stream_bench: %s\n", what);
        exit(1);
    }
}

static void open_stream(void *arg, struct http_exchange *exchange)
{
    (void)arg;
    atomic_store(&opened[atomic_fetch_add(&n_opened, 1)], http_exchange_share(exchange));
}

static int connect_to(uint16_t number)
{
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons(number),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(fd >= 0 && connect(fd, (const struct sockaddr *)&to, sizeof to) == 0, "connect");
    return fd;
}

static struct http_exchange *begin_stream(uint32_t index, int *fd_out)
{
    static const char REQUEST[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    const struct http_answer_head head = {.code = 200};
    *fd_out = connect_to(http_port_number(port));
    must(send(*fd_out, REQUEST, sizeof REQUEST - 1, 0) == sizeof REQUEST - 1, "send");
    while (atomic_load(&n_opened) <= index || !atomic_load(&opened[index]))
        (void)poll(NULL, 0, 1);
    must(http_exchange_begin(opened[index], &head) == STATUS_OK, "begin");
    return opened[index];
}

/* ---- what is added ---- */

static void *read_events(void *arg)
{
    static char bytes[65536];
    int fd = *(int *)arg;
    uint32_t n = 0;
    while (n < n_events) {
        ssize_t got = recv(fd, bytes, sizeof bytes, 0);
        uint64_t now_ns = clock_now_ns();
        must(got > 0, "the stream ended");
        for (ssize_t i = 0; i < got; i++)
            if (bytes[i] == '#' && n < n_events) {
                added_ns[n] = now_ns - sent_ns[n];
                n++;
            }
    }
    return NULL;
}

static int by_value(const void *one, const void *other)
{
    uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return a < b ? -1 : a > b;
}

static void print_added(const char *name)
{
    qsort(added_ns, n_events, sizeof *added_ns, by_value);
    printf("%s: p50 %.1f us, p99 %.1f us, most %.1f us\n", name,
           (double)added_ns[n_events / 2] / 1e3, (double)added_ns[n_events * 99ull / 100] / 1e3,
           (double)added_ns[n_events - 1] / 1e3);
}

/* exchange NULL: by the socket `to`. */
static void send_events(struct http_exchange *exchange, int to, int from)
{
    char event[EVENT_BYTES];
    pthread_t reader;
    memset(event, 'x', sizeof event);
    event[0] = '#';
    must(pthread_create(&reader, NULL, read_events, &from) == 0, "thread");
    for (uint32_t i = 0; i < n_events; i++) {
        const struct timespec pause = {.tv_nsec = PAUSE_NS};
        (void)ppoll(NULL, 0, &pause, NULL);
        sent_ns[i] = clock_now_ns();
        if (exchange)
            must(http_exchange_send(exchange, event, sizeof event) == STATUS_OK, "send");
        else
            must(send(to, event, sizeof event, 0) == sizeof event, "send");
    }
    pthread_join(reader, NULL);
}

static void measure_bare(void)
{
    const struct sockaddr_in any = {.sin_family = AF_INET,
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in at;
    socklen_t n = sizeof at;
    const int on = 1;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(bind(listener, (const struct sockaddr *)&any, sizeof any) == 0 &&
             listen(listener, 1) == 0 && getsockname(listener, (struct sockaddr *)&at, &n) == 0,
         "listen");
    int from = connect_to(ntohs(at.sin_port)), to = accept(listener, NULL, NULL);
    must(to >= 0 && setsockopt(to, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0, "accept");
    send_events(NULL, to, from);
    print_added("bare TCP");
    close(from), close(to), close(listener);
}

static void measure_added(void)
{
    int fd;
    struct http_exchange *exchange = begin_stream(0, &fd);
    send_events(exchange, -1, fd);
    print_added("by the port");
    http_exchange_end(exchange);
    http_exchange_release(exchange);
    close(fd);
}

/* ---- how many ---- */

struct stream {
    uint32_t index;
    int fd;
    struct http_exchange *exchange;
};

static void *send_fast(void *arg)
{
    const struct stream *stream = arg;
    char event[EVENT_BYTES];
    memset(event, 'x', sizeof event);
    event[0] = '#';
    for (uint32_t i = 0; i < n_events; i++) {
        while (i - atomic_load(&n_read[stream->index]) >= AHEAD_MAX)
            (void)poll(NULL, 0, 1);
        must(http_exchange_send(stream->exchange, event, sizeof event) == STATUS_OK, "send");
    }
    http_exchange_end(stream->exchange);
    return NULL;
}

static void read_all(struct stream *streams)
{
    static char bytes[262144];
    uint64_t n_wanted = (uint64_t)n_streams * n_events, n_all = 0;
    struct pollfd fds[STREAMS_MAX];
    for (uint32_t i = 0; i < n_streams; i++)
        fds[i] = (struct pollfd){.fd = streams[i].fd, .events = POLLIN};
    while (n_all < n_wanted) {
        must(poll(fds, n_streams, 20000) > 0, "silence");
        for (uint32_t i = 0; i < n_streams; i++) {
            ssize_t got = fds[i].revents ? recv(fds[i].fd, bytes, sizeof bytes, 0) : 0;
            uint32_t n = 0;
            for (ssize_t k = 0; k < got; k++)
                n += bytes[k] == '#';
            atomic_fetch_add(&n_read[i], n);
            n_all += n;
        }
    }
}

static void measure_rate(void)
{
    static struct stream streams[STREAMS_MAX];
    pthread_t threads[STREAMS_MAX];
    uint32_t n_before = atomic_load(&n_opened);
    for (uint32_t i = 0; i < n_streams; i++) {
        streams[i].index = i;
        streams[i].exchange = begin_stream(n_before + i, &streams[i].fd);
    }
    uint64_t start_ns = clock_now_ns();
    for (uint32_t i = 0; i < n_streams; i++)
        must(pthread_create(&threads[i], NULL, send_fast, &streams[i]) == 0, "thread");
    read_all(streams);
    double seconds = (double)(clock_now_ns() - start_ns) / 1e9;
    for (uint32_t i = 0; i < n_streams; i++) {
        pthread_join(threads[i], NULL);
        http_exchange_release(streams[i].exchange);
        close(streams[i].fd);
    }
    printf("%" PRIu32 " streams: %.0f events/s\n", n_streams,
           (double)n_events * n_streams / seconds);
}

/* ---- calls ---- */

static void answer(void *arg, struct http_exchange *exchange)
{
    const struct http_answer_head head = {.code = 200};
    (void)arg;
    must(http_exchange_reply(exchange, &head, "hello", 5) == STATUS_OK, "reply");
}

static void *call(void *arg)
{
    static const char REQUEST[] = "GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n";
    char bytes[1024];
    int fd = connect_to(http_port_number(port));
    uint64_t until_ns = clock_now_ns() + NS_PER_S;
    while (clock_now_ns() < until_ns) {
        must(send(fd, REQUEST, sizeof REQUEST - 1, 0) == sizeof REQUEST - 1, "send");
        must(recv(fd, bytes, sizeof bytes, 0) > 0, "no answer");
        ++*(uint64_t *)arg;
    }
    close(fd);
    return NULL;
}

static void measure_calls(void)
{
    pthread_t threads[CALLERS];
    uint64_t n[CALLERS] = {0}, n_all = 0;
    for (int i = 0; i < CALLERS; i++)
        must(pthread_create(&threads[i], NULL, call, &n[i]) == 0, "thread");
    for (int i = 0; i < CALLERS; i++) {
        pthread_join(threads[i], NULL);
        n_all += n[i];
    }
    printf("%d connections: %" PRIu64 " calls/s\n", CALLERS, n_all);
}

int main(int argc, char **argv)
{
    static const struct http_route ROUTES[] = {{"/", HTTP_VERB_GET, open_stream, NULL},
                                               {"/hello", HTTP_VERB_GET, answer, NULL}};
    struct http_port_options options = {.address = "127.0.0.1:0", .routes = ROUTES, .n_routes = 2};
    struct error error = {""};
    if (argc > 1)
        n_events = (uint32_t)strtoul(argv[1], NULL, 10);
    if (argc > 2)
        n_streams = (uint32_t)strtoul(argv[2], NULL, 10);
    must(n_events > 0 && n_streams > 0 && n_streams < STREAMS_MAX, "EVENTS [STREAMS], 1 .. 255");
    sent_ns = calloc(n_events, sizeof *sent_ns);
    added_ns = calloc(n_events, sizeof *added_ns);
    http_limits_init(&options.limits);
    options.limits.address_connections_per_s = 100000;
    must(sent_ns && added_ns && http_port_open(&options, &error, &port) == STATUS_OK, error.text);
    measure_bare();
    measure_added();
    measure_rate();
    measure_calls();
    http_port_close(port);
    free(sent_ns);
    free(added_ns);
    return 0;
}
