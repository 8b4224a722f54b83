/*
 * relay_config - the rows of what may reach gRPC (rpc/relay/limits.h), and how they get there.
 */
#pragma once

#include "base/clock.h"
#include "base/config/config.h"

#define RELAY_CONFIG_ROWS(X)                                                                       \
    X(relay_connections_max, U32(1, 65536), "1024", "connections", "open connections of a port")   \
    X(relay_unproven_max, U32(1, 65536), "256", "connections",                                     \
      "those that were not served yet; an old one goes for a new one")                             \
    X(relay_address_connections_max, U32(1, 65536), "256", "connections",                          \
      "those of one address, or of an IPv6 /64; as all limits of an address, not on control "      \
      "ports "                                                                                     \
      "and not of relay_exempt")                                                                   \
    X(relay_address_connections_per_s, U32(1, 1000000), "100", "connections/s",                    \
      "new ones of one address, on average")                                                       \
    X(relay_address_streams_max, U32(1, 1000000), "768", "streams", "open calls of one address")   \
    X(relay_half_open_max, U32(1, 1000000), "1024", "streams",                                     \
      "calls of a port whose request has not ended")                                               \
    X(relay_address_half_open_max, U32(1, 1000000), "256", "streams", "those of one address")      \
    X(relay_request_bytes_max, SIZE(1048576, 167772160), "96M", "bytes",                           \
      "of requests above 64 KiB that have begun to come and were not answered, of a port; beyond " \
      "it the next such request waits")                                                            \
    X(relay_address_request_bytes_max, SIZE(1048576, 167772160), "32M", "bytes",                   \
      "those of one address")                                                                      \
    X(relay_connection_request_bytes_max, SIZE(1048576, 167772160), "16M", "bytes",                \
      "those of one connection; one request is let in whatever it needs")                          \
    X(relay_unanswered_max, U32(1, 1000000), "32", "requests",                                     \
      "that gRPC was given in the last 25 to 50 ms and has not answered; beyond it an address "    \
      "with its even share of them is not read")                                                   \
    X(relay_resets_per_s, U32(1, 1000000), "500", "resets/s",                                      \
      "cancelled calls of a port; beyond it who cancels is not read for a while")                  \
    X(relay_address_resets_per_s, U32(1, 1000000), "100", "resets/s", "those of one address")      \
    X(relay_pings_per_s, U32(1, 1000000), "10", "pings/s",                                         \
      "of a connection, beside one for each message that it gets; beyond it is not read")          \
    X(relay_controls_per_s, U32(1, 1000000), "50", "frames/s",                                     \
      "HTTP/2 frames of a connection that carry nothing; beyond it is not read")                   \
    X(relay_header_frames_max, U32(1, 1024), "8", "frames", "frames of one list of headers")       \
    X(relay_handshake_ms, DURATION_MS(100, 3600000), "5s", "ms",                                   \
      "for the begin of a connection: TLS, HTTP/2's preface and SETTINGS")                         \
    X(relay_handshakes_per_s, U32(1, 100000), "200", "handshakes/s",                               \
      "TLS handshakes begun on a port; others wait")                                               \
    X(relay_unproven_ms, DURATION_MS(100, 3600000), "30s", "ms",                                   \
      "until a connection that was never served, and asks nothing, is closed")                     \
    X(relay_settings_ms, DURATION_MS(100, 3600000), "10s", "ms",                                   \
      "until a client has acknowledged our SETTINGS")                                              \
    X(relay_frame_ms, DURATION_MS(100, 3600000), "10s", "ms",                                      \
      "from a frame's first byte to its last; of DATA between two bytes")                          \
    X(relay_stall_ms, DURATION_MS(100, 3600000), "20s", "ms",                                      \
      "during which a client takes nothing of what it is sent")                                    \
    X(relay_behind_ms, DURATION_MS(100, 3600000), "8s", "ms",                                      \
      "during which a client that is not read for its budgets has more to say")                    \
    X(relay_half_open_ms, DURATION_MS(100, 3600000), "10s", "ms",                                  \
      "between two bytes of a request")                                                            \
    X(relay_request_ms, DURATION_MS(100, 3600000), "2m", "ms", "for a whole request")              \
    X(relay_exempt, STRING, "", "",                                                                \
      "networks without limits of an address, as of proxies: \"10.0.0.0/8, ::1\"")

/* A struct relay_limits of these rows; streams and header bytes are the server's own rows. */
#define RELAY_LIMITS(config)                                                                       \
    {                                                                                              \
        .connections_max = (config)->relay_connections_max,                                        \
        .unproven_max = (config)->relay_unproven_max,                                              \
        .address_connections_max = (config)->relay_address_connections_max,                        \
        .address_connections_per_s = (config)->relay_address_connections_per_s,                    \
        .address_streams_max = (config)->relay_address_streams_max,                                \
        .half_open_max = (config)->relay_half_open_max,                                            \
        .address_half_open_max = (config)->relay_address_half_open_max,                            \
        .request_bytes_max = (config)->relay_request_bytes_max,                                    \
        .address_request_bytes_max = (config)->relay_address_request_bytes_max,                    \
        .connection_request_bytes_max = (config)->relay_connection_request_bytes_max,              \
        .unanswered_max = (config)->relay_unanswered_max,                                          \
        .resets_per_s = (config)->relay_resets_per_s,                                              \
        .address_resets_per_s = (config)->relay_address_resets_per_s,                              \
        .pings_per_s = (config)->relay_pings_per_s,                                                \
        .controls_per_s = (config)->relay_controls_per_s,                                          \
        .header_frames_max = (config)->relay_header_frames_max,                                    \
        .handshake_ns = (config)->relay_handshake_ms * NS_PER_MS,                                  \
        .unproven_ns = (config)->relay_unproven_ms * NS_PER_MS,                                    \
        .settings_ns = (config)->relay_settings_ms * NS_PER_MS,                                    \
        .frame_ns = (config)->relay_frame_ms * NS_PER_MS,                                          \
        .stall_ns = (config)->relay_stall_ms * NS_PER_MS,                                          \
        .behind_ns = (config)->relay_behind_ms * NS_PER_MS,                                        \
        .half_open_ns = (config)->relay_half_open_ms * NS_PER_MS,                                  \
        .request_ns = (config)->relay_request_ms * NS_PER_MS,                                      \
        .handshakes_per_s = (config)->relay_handshakes_per_s, .exempt = (config)->relay_exempt,    \
    }
