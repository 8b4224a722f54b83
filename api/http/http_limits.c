#include "api/http/http_limits.h"

#include "base/clock.h"

void http_limits_init(struct http_limits *limits)
{
    *limits = (struct http_limits){
        .connections_max = 1024,
        .address_connections_max = 256,
        .address_connections_per_s = 100,
        .requests_max = 1024,
        .address_requests_max = 768,
        .target_bytes_max = 8u << 10,
        .head_bytes_max = 16u << 10,
        .fields_max = 100,
        .body_bytes_max = 8u << 20,
        .bodies_bytes_max = 96u << 20,
        .address_bodies_bytes_max = 32u << 20,
        .unsent_bytes_max = 1u << 20,
        .all_unsent_bytes_max = HTTP_ALL_UNSENT_BYTES_MAX,
        .reply_bytes_max = 64u << 20,
        .handshake_ns = 5 * NS_PER_S,
        .head_ns = 10 * NS_PER_S,
        .body_ns = 120 * NS_PER_S,
        .body_gap_ns = 10 * NS_PER_S,
        .idle_ns = 75 * NS_PER_S,
        .slow_reader_ns = 10 * NS_PER_S,
        .keepalive_ns = 10 * NS_PER_S,
        .quiet_ns = 15 * NS_PER_S,
        .handshakes_per_s = 200,
        .exempt = "",
    };
}

static const char *const LIMIT_LABELS[] = {
#define X(name, text) "limit=" text,
    HTTP_LIMIT_TABLE(X)
#undef X
};

static const char *const CODE_LABELS[HTTP_N_CODE_CLASSES] = {"code=1xx", "code=2xx", "code=3xx",
                                                             "code=4xx", "code=5xx"};

void http_metrics_init(struct http_metrics *http_metrics, struct metrics *metrics)
{
    static const char ANSWERS[] =
        "HTTP answers that were sent to the end, by the first digit of the code; none: the client "
        "left before there was a code; cut: the answer began and did not reach its end.";
    http_metrics->connections = metrics_gauge(metrics, "kvferry_http_connections", "",
                                              "Open connections on HTTP ports.");
    http_metrics->running = metrics_gauge(metrics, "kvferry_http_requests_running", "",
                                          "HTTP requests that are being answered.");
    http_metrics->accepted = metrics_counter(metrics, "kvferry_http_connections_accepted_total", "",
                                             "Connections accepted on HTTP ports.");
    http_metrics->handshakes = metrics_counter(metrics, "kvferry_http_handshakes_total", "",
                                               "TLS handshakes completed on HTTP ports.");
    http_metrics->received_bytes = metrics_counter(metrics, "kvferry_http_received_bytes_total", "",
                                                   "Bytes received on HTTP ports, TLS included.");
    http_metrics->sent_bytes = metrics_counter(metrics, "kvferry_http_sent_bytes_total", "",
                                               "Bytes sent on HTTP ports, TLS included.");
    for (int i = 0; i < HTTP_N_CODE_CLASSES; i++)
        http_metrics->answers[i] = metrics_counter(metrics, "kvferry_http_requests_total",
                                                   CODE_LABELS[i], ANSWERS);
    http_metrics->unanswered = metrics_counter(metrics, "kvferry_http_requests_total", "code=none",
                                               ANSWERS);
    http_metrics->cut = metrics_counter(metrics, "kvferry_http_requests_total", "code=cut",
                                        ANSWERS);
    for (int i = 0; i < HTTP_N_LIMITS; i++)
        http_metrics->struck[i] = metrics_counter(
            metrics, "kvferry_http_struck_total", LIMIT_LABELS[i],
            "Times that a client of an HTTP port reached a limit: a connection was refused or "
            "closed, or a request was refused.");
}
