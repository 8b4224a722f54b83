/*
 * limits - the limits of one connection, one address and all connections of a port, which apply before
 * gRPC reads anything.
 *
 * Times are in nanoseconds, rates per second; a budget stores a few seconds of its rate. While a
 * budget is empty, the relay does not read the connection; a connection that is behind for behind_ns
 * is closed.
 *
 * Plain data.
 */
#pragma once

#include "base/metrics/metrics.h"
#include "base/status.h"

#include <stdint.h>

struct relay_limits {
    uint32_t connections_max;
    uint32_t address_connections_max;
    uint32_t address_connections_per_s;
    uint32_t unproven_max; /* connections without a served call; a new one replaces an old one */
    uint32_t streams_max;  /* of a connection, as SETTINGS announce */
    uint32_t address_streams_max;
    uint32_t half_open_max; /* streams with an unfinished request and no answer */
    uint32_t address_half_open_max;
    uint64_t request_bytes_max; /* of large requests in transit (request_window.h) */
    uint64_t address_request_bytes_max;
    uint64_t connection_request_bytes_max;
    uint32_t message_bytes_max; /* of one request: the core's limit */
    uint32_t unanswered_max;    /* requests in the core; beyond it turns.h decides */
    uint32_t resets_per_s;
    uint32_t address_resets_per_s;
    uint32_t pings_per_s;      /* of a connection, beyond one for each message sent to it */
    uint32_t controls_per_s;   /* of a connection: SETTINGS, PRIORITY, empty DATA ... */
    uint32_t header_bytes_max; /* of one header list, over all its frames */
    uint32_t header_frames_max;
    uint64_t handshake_ns;     /* until the first SETTINGS arrive */
    uint64_t unproven_ns;      /* without a call, of a connection without a served call */
    uint64_t settings_ns;      /* until the client acknowledges ours */
    uint64_t frame_ns;         /* from one byte of a frame or a header list to its end */
    uint64_t stall_ns;         /* during which the client takes no output */
    uint64_t behind_ns;        /* during which budgets delay the reading of a client's bytes */
    uint64_t half_open_ns;     /* between bytes of a request */
    uint64_t request_ns;       /* of a whole request */
    uint32_t handshakes_per_s; /* TLS handshakes that begin on a port; more must wait */
    const char *exempt; /* networks without the limits of an address: "10.0.0.0/8, ::1"; borrowed */
};

/* connections 1,024, of an address 256, 100 a second; unproven 256; streams 256, of an address 768; half-open 1,024, of
 * an address 256; request bytes 96 MiB, of an address 32 MiB, of a connection 16 MiB; message 8 MiB; unanswered 32;
 * resets 500/s, of an address 100/s; pings 10/s; controls 50/s; header 16 KiB in 8 frames; handshake 5 s; unproven 30
 * s; settings 10 s; frame 10 s; stall 20 s; behind 8 s; half-open 10 s; request 2 min; 200 handshakes/s; no exempt
 * network. */
void relay_limits_init(struct relay_limits *limits);
/* For ports that only a few addresses of the cluster call: an address has the limits of all
 * together. */
void relay_limits_trust_addresses(struct relay_limits *limits);

/* Each limit with its name in the metric's label. */
#define RELAY_LIMIT_TABLE(X)                                                                       \
    X(CONNECTIONS, "connections")                                                                  \
    X(ADDRESS_CONNECTIONS, "address_connections")                                                  \
    X(ADDRESS_CONNECTION_RATE, "address_connection_rate")                                          \
    X(ADDRESS_RESET_DEBT, "address_reset_debt")                                                    \
    X(UNPROVEN, "unproven")                                                                        \
    X(STREAMS, "streams")                                                                          \
    X(ADDRESS_STREAMS, "address_streams")                                                          \
    X(HALF_OPEN, "half_open")                                                                      \
    X(ADDRESS_HALF_OPEN, "address_half_open")                                                      \
    X(REQUEST_BYTES, "request_bytes")                                                              \
    X(ADDRESS_REQUEST_BYTES, "address_request_bytes")                                              \
    X(CONNECTION_REQUEST_BYTES, "connection_request_bytes")                                        \
    X(UNANSWERED, "unanswered")                                                                    \
    X(RESETS, "resets")                                                                            \
    X(ADDRESS_RESETS, "address_resets")                                                            \
    X(PINGS, "pings")                                                                              \
    X(CONTROLS, "controls")                                                                        \
    X(HEADER_BYTES, "header_bytes")                                                                \
    X(HEADER_FRAMES, "header_frames")                                                              \
    X(HANDSHAKE_TIME, "handshake_time")                                                            \
    X(UNPROVEN_TIME, "unproven_time")                                                              \
    X(SETTINGS_TIME, "settings_time")                                                              \
    X(FRAME_TIME, "frame_time")                                                                    \
    X(STALL_TIME, "stall_time")                                                                    \
    X(BEHIND_TIME, "behind_time")                                                                  \
    X(HALF_OPEN_TIME, "half_open_time")                                                            \
    X(REQUEST_TIME, "request_time")                                                                \
    X(TLS, "tls")                                                                                  \
    X(PROTOCOL, "protocol")                                                                        \
    X(DESCRIPTORS, "descriptors")

enum relay_limit {
#define X(name, text) RELAY_LIMIT_##name,
    RELAY_LIMIT_TABLE(X)
#undef X
        RELAY_N_LIMITS
};

const char *relay_limit_name(enum relay_limit limit);

/* The metrics of all relays of a process. */
struct relay_metrics {
    struct counter *accepted;
    struct counter *handshakes;
    struct gauge *connections;
    struct counter *struck[RELAY_N_LIMITS];
};

void relay_metrics_init(struct relay_metrics *relay_metrics, struct metrics *metrics);
