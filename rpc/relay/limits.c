#include "rpc/relay/limits.h"

#include "base/clock.h"

#include <assert.h>

void relay_limits_init(struct relay_limits *limits)
{
    *limits = (struct relay_limits){
        .connections_max = 1024,
        .address_connections_max = 256,
        .address_connections_per_s = 100,
        .unproven_max = 256,
        .streams_max = 256,
        .address_streams_max = 768,
        .half_open_max = 1024,
        .address_half_open_max = 256,
        .request_bytes_max = 96u << 20,
        .address_request_bytes_max = 32u << 20,
        .connection_request_bytes_max = 16u << 20,
        .message_bytes_max = 8u << 20,
        .unanswered_max = 32,
        .resets_per_s = 500,
        .address_resets_per_s = 100,
        .pings_per_s = 10,
        .controls_per_s = 50,
        .header_bytes_max = 16u << 10,
        .header_frames_max = 8,
        .handshake_ns = 5 * NS_PER_S,
        .unproven_ns = 30 * NS_PER_S,
        .settings_ns = 10 * NS_PER_S,
        .frame_ns = 10 * NS_PER_S,
        .stall_ns = 20 * NS_PER_S,
        .behind_ns = 8 * NS_PER_S,
        .half_open_ns = 10 * NS_PER_S,
        .request_ns = 120 * NS_PER_S,
        .handshakes_per_s = 200,
        .exempt = "",
    };
}

void relay_limits_trust_addresses(struct relay_limits *limits)
{
    limits->address_connections_max = UINT32_MAX;
    limits->address_connections_per_s = UINT32_MAX;
    limits->address_streams_max = UINT32_MAX;
    limits->address_half_open_max = UINT32_MAX;
    limits->address_request_bytes_max = UINT64_MAX;
    limits->unanswered_max = UINT32_MAX;
    limits->address_resets_per_s = limits->resets_per_s;
}

static const char *const NAMES[] = {
#define X(name, text) text,
    RELAY_LIMIT_TABLE(X)
#undef X
};

static const char *const LABELS[] = {
#define X(name, text) "limit=" text,
    RELAY_LIMIT_TABLE(X)
#undef X
};

const char *relay_limit_name(enum relay_limit limit)
{
    assert(limit < RELAY_N_LIMITS);
    return NAMES[limit];
}

void relay_metrics_init(struct relay_metrics *relay_metrics, struct metrics *metrics)
{
    relay_metrics->accepted = metrics_counter(metrics, "kvferry_relay_connections_accepted_total",
                                              "", "Connections accepted on gRPC ports.");
    relay_metrics->handshakes = metrics_counter(metrics, "kvferry_relay_handshakes_total", "",
                                                "TLS handshakes completed on gRPC ports.");
    relay_metrics->connections = metrics_gauge(metrics, "kvferry_relay_connections", "",
                                               "Open connections on gRPC ports.");
    for (int i = 0; i < RELAY_N_LIMITS; i++)
        relay_metrics->struck[i] = metrics_counter(
            metrics, "kvferry_relay_struck_total", LABELS[i],
            "Times that a client of a gRPC port reached a limit: a connection was refused, closed "
            "or not read for a while, or a stream was reset.");
}
