/*
 * http_echo - an HTTP port as a program, for clients that others have written and for tests/abuse.
 *
 *     http_echo [--tls CERTIFICATE KEY] [--times-ms N]
 *
 * Prints its port number and serves until its standard input ends; then it drains for a second. --times-ms: of every limit
 * in time. Each answer has the header field x-request-id that the request had.
 *
 *     GET  /hello      "hello"                       POST /echo  the body back
 *     GET  /stream?n=5 so many events, then [DONE]   GET  /flood events until one is refused
 *     GET  /metrics    of the port
 */
#include "api/http/http_port.h"
#include "base/clock.h"
#include "rpc/tls/tls_files.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EVENTS_MAX 1000ul

static struct metrics *metrics;

static void answer(struct http_exchange *exchange, const char *type, const char *body, size_t n)
{
    const char *id = http_exchange_field(exchange, "x-request-id");
    const struct http_field fields[] = {{"Content-Type", type}, {"x-request-id", id ? id : ""}};
    const struct http_answer_head head = {.code = 200, .fields = fields, .n_fields = id ? 2 : 1};
    enum status status = http_exchange_reply(exchange, &head, body, n);
    if (status != STATUS_OK) /* what was answered stays so */
        http_exchange_refuse(exchange, 503, 1, "%s", status_text(status));
}

static void hello(void *arg, struct http_exchange *exchange)
{
    (void)arg;
    answer(exchange, "text/plain", "hello", 5);
}

static void echo(void *arg, struct http_exchange *exchange)
{
    (void)arg;
    size_t n;
    const char *body = http_exchange_body(exchange, &n);
    answer(exchange, "application/octet-stream", body, n);
}

static void show_metrics(void *arg, struct http_exchange *exchange)
{
    (void)arg;
    char *text;
    size_t n;
    if (metrics_text(metrics, &text, &n) != STATUS_OK) {
        http_exchange_refuse(exchange, 503, 1, "out of memory");
        return;
    }
    answer(exchange, "text/plain; version=0.0.4", text, n);
    free(text);
}

/* Holds the exchange, and ends it. */
static void *send_events(void *arg)
{
    struct http_exchange *exchange = arg;
    char value[16];
    const struct http_field type = {"Content-Type", "text/event-stream"};
    const struct http_answer_head head = {.code = 200, .fields = &type, .n_fields = 1};
    unsigned long n = EVENTS_MAX;
    if (http_exchange_query(exchange, "n", value, sizeof value))
        n = strtoul(value, NULL, 10);
    enum status status = http_exchange_begin(exchange, &head);
    for (unsigned long i = 0; i < n && i < EVENTS_MAX && status == STATUS_OK; i++) {
        char event[600];
        int length = snprintf(event, sizeof event, "data: {\"index\": %lu}\n\n", i);
        status = http_exchange_send(exchange, event, (size_t)length);
    }
    if (status == STATUS_OK)
        status = http_exchange_send(exchange, "data: [DONE]\n\n", 14);
    http_exchange_end(exchange);
    http_exchange_release(exchange);
    return NULL;
}

static void stream(void *arg, struct http_exchange *exchange)
{
    pthread_t thread;
    (void)arg;
    struct http_exchange *held = http_exchange_share(exchange);
    if (pthread_create(&thread, NULL, send_events, held) == 0) {
        pthread_detach(thread);
        return;
    }
    http_exchange_refuse(held, 503, 1, "no thread");
    http_exchange_release(held);
}

static void flood(void *arg, struct http_exchange *exchange)
{
    static const char EVENT[4096];
    const struct http_answer_head head = {.code = 200};
    (void)arg;
    enum status status = http_exchange_begin(exchange, &head);
    while (status == STATUS_OK)
        status = http_exchange_send(exchange, EVENT, sizeof EVENT);
}

static const struct http_route ROUTES[] = {
    {"/hello", HTTP_VERB_GET, hello, NULL},          {"/echo", HTTP_VERB_POST, echo, NULL},
    {"/metrics", HTTP_VERB_GET, show_metrics, NULL}, {"/stream", HTTP_VERB_GET, stream, NULL},
    {"/flood", HTTP_VERB_GET, flood, NULL},
};

static void set_times(struct http_limits *limits, const char *ms)
{
    uint64_t ns = strtoull(ms, NULL, 10) * NS_PER_MS;
    limits->handshake_ns = limits->head_ns = limits->body_gap_ns = ns;
    limits->body_ns = limits->idle_ns = limits->slow_reader_ns = ns;
}

/* Returns whether it could. */
static bool read_words(int argc, char **argv, struct http_port_options *options,
                       struct tls_files **files, struct error *error)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--times-ms") == 0 && i + 1 < argc) {
            set_times(&options->limits, argv[++i]);
        } else if (strcmp(argv[i], "--tls") == 0 && i + 2 < argc) {
            const struct tls_files_options of = {.certificate = argv[i + 1],
                                                 .key = argv[i + 2],
                                                 .ca = "",
                                                 .certificate_row = "--tls",
                                                 .key_row = "--tls",
                                                 .ca_row = "--tls"};
            i += 2;
            if (tls_files_open(&of, error, files) != STATUS_OK)
                return false;
            options->tls = *files;
        } else {
            error_write(error, "what is %s?", argv[i]);
            return false;
        }
    }
    return true;
}

int main(int argc, char **argv)
{
    static struct http_metrics http_metrics;
    struct http_port_options options = {.address = "127.0.0.1:0",
                                        .routes = ROUTES,
                                        .n_routes = sizeof ROUTES / sizeof *ROUTES,
                                        .metrics = &http_metrics};
    struct tls_files *files = NULL;
    struct http_port *port = NULL;
    struct error error = {"out of memory"};
    char byte;
    signal(SIGPIPE, SIG_IGN);
    http_limits_init(&options.limits);
    if (metrics_create("http-echo", &metrics) != STATUS_OK ||
        !read_words(argc, argv, &options, &files, &error)) {
        fprintf(stderr, "http_echo: %s\n", error.text);
        return 2;
    }
    http_metrics_init(&http_metrics, metrics);
    if (http_port_open(&options, &error, &port) != STATUS_OK) {
        fprintf(stderr, "http_echo: %s\n", error.text);
        return 1;
    }
    printf("%u\n", http_port_number(port));
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0)
        continue;
    bool is_drained = http_port_drain(port, NS_PER_S);
    http_port_close(port);
    tls_files_close(files);
    metrics_destroy(metrics);
    return is_drained ? 0 : 3;
}
