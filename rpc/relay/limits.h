/*
 * limits - what one client, one address and all together may do to a port before gRPC sees it.
 *
 * Times are in nanoseconds, rates a second; a budget holds a few seconds of its rate. An empty budget
 * stops the reading of a connection until there is some again; who is behind for behind_ns is cut off.
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
    uint32_t unproven_max; /* connections that were not served; an old one goes for a new one */
    uint32_t streams_max;  /* of a connection, as its SETTINGS say */
    uint32_t address_streams_max;
    uint32_t half_open_max; /* streams whose request has not ended and that have no answer */
    uint32_t address_half_open_max;
    uint64_t request_bytes_max; /* of those above a first window, under way (request_window.h) */
    uint64_t address_request_bytes_max;
    uint64_t connection_request_bytes_max;
    uint32_t message_bytes_max; /* of one request: what the core takes */
    uint32_t unanswered_max;    /* requests in the core; beyond it who has most waits (turns.h) */
    uint32_t resets_per_s;
    uint32_t address_resets_per_s;
    uint32_t pings_per_s;      /* of a connection, beyond one for each message that it was sent */
    uint32_t controls_per_s;   /* of a connection: SETTINGS, PRIORITY, empty DATA and their like */
    uint32_t header_bytes_max; /* of one list of headers, over all its frames */
    uint32_t header_frames_max;
    uint64_t handshake_ns; /* until the first SETTINGS have come */
    uint64_t unproven_ns;  /* without a call, of a connection that was not served */
    uint64_t settings_ns;  /* until ours are acknowledged */
    uint64_t frame_ns;     /* from one byte of a frame or a list of headers to its end */
    uint64_t stall_ns;     /* during which what we send is not taken */
    uint64_t behind_ns;    /* during which a client has said more than was read, for its budgets */
    uint64_t half_open_ns; /* between bytes of a request */
    uint64_t request_ns;   /* of a whole request */
    uint32_t handshakes_per_s; /* TLS handshakes begun on a port; the others wait */
    const char *exempt; /* networks without limits of an address: "10.0.0.0/8, ::1"; borrowed */
};

/* connections 1,024, of an address 256, 100 a second; unproven 256; streams 256, of an address 768;
 * half-open 1,024, of an address 256; request bytes 96 MiB, of an address 32 MiB, of a connection 16 MiB; message 8 MiB;
 * unanswered 32; resets 500/s, of an address 100/s; pings 10/s; controls 50/s;
 * header 16 KiB in 8 frames; handshake 5 s; unproven 30 s; settings 10 s; frame 10 s; stall 20 s; behind 8 s;
 * half-open 10 s; request 2 min; 200 handshakes/s; nobody exempt. */
void relay_limits_init(struct relay_limits *limits);
/* For ports that only a few addresses of our own call: an address may do what all may. */
void relay_limits_trust_addresses(struct relay_limits *limits);

/* Each limit, as the metric's label names it. */
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

/* Of all relays of a process. */
struct relay_metrics {
    struct counter *accepted;
    struct counter *handshakes;
    struct gauge *connections;
    struct counter *struck[RELAY_N_LIMITS];
};

void relay_metrics_init(struct relay_metrics *relay_metrics, struct metrics *metrics);
