/*
 * relay_config - the configuration rows of the relay's limits (rpc/relay/limits.h).
 */
#pragma once

#include "base/clock.h"
#include "base/config/config.h"

#define RELAY_CONFIG_ROWS(X)                                                                       \
    X(relay_connections_max, U32(1, 65536), "1024", "connections",                                 \
      "most open connections on one port")                                                         \
    X(relay_unproven_max, U32(1, 65536), "256", "connections",                                     \
      "most open connections on one port that have not been served yet; a new connection "         \
      "replaces an old one")                                                                       \
    X(relay_address_connections_max, U32(1, 65536), "256", "connections",                          \
      "most open connections from one address (an IPv4 address or an IPv6 /64); limits per "       \
      "address do not apply to control ports and to relay_exempt")                                 \
    X(relay_address_connections_per_s, U32(1, 1000000), "100", "connections/s",                    \
      "most new connections from one address in a second, on average")                             \
    X(relay_address_streams_max, U32(1, 1000000), "768", "streams",                                \
      "most open calls from one address")                                                          \
    X(relay_half_open_max, U32(1, 1000000), "1024", "streams",                                     \
      "most calls on one port whose request has not arrived completely")                           \
    X(relay_address_half_open_max, U32(1, 1000000), "256", "streams",                              \
      "most calls from one address whose request has not arrived completely")                      \
    X(relay_request_bytes_max, SIZE(1048576, 167772160), "96M", "bytes",                           \
      "most bytes, on one port, of requests over 64 KiB that have started to arrive and are not "  \
      "answered; the next such request waits")                                                     \
    X(relay_address_request_bytes_max, SIZE(1048576, 167772160), "32M", "bytes",                   \
      "most such bytes from one address")                                                          \
    X(relay_connection_request_bytes_max, SIZE(1048576, 167772160), "16M", "bytes",                \
      "most such bytes from one connection; a single request is accepted whatever its size")       \
    X(relay_unanswered_max, U32(1, 1000000), "32", "requests",                                     \
      "most requests passed to gRPC in the last 25 to 50 ms and not answered; above this, an "     \
      "address that has its even share of them is not read")                                       \
    X(relay_resets_per_s, U32(1, 1000000), "500", "resets/s",                                      \
      "most calls cancelled in a second on one port; above this, clients that cancel are not "     \
      "read for a while")                                                                          \
    X(relay_address_resets_per_s, U32(1, 1000000), "100", "resets/s",                              \
      "most calls cancelled in a second by one address")                                           \
    X(relay_pings_per_s, U32(1, 1000000), "10", "pings/s",                                         \
      "most pings in a second on one connection, in addition to one for each message sent to it; " \
      "above this it is not read")                                                                 \
    X(relay_controls_per_s, U32(1, 1000000), "50", "frames/s",                                     \
      "most HTTP/2 frames without content in a second on one connection; above this it is not "    \
      "read")                                                                                      \
    X(relay_header_frames_max, U32(1, 1024), "8", "frames", "most frames in one list of headers")  \
    X(relay_handshake_ms, DURATION_MS(100, 3600000), "5s", "ms",                                   \
      "longest time to open a connection: TLS handshake, HTTP/2 preface and SETTINGS")             \
    X(relay_handshakes_per_s, U32(1, 100000), "200", "handshakes/s",                               \
      "most TLS handshakes started in a second on one port; others wait")                          \
    X(relay_unproven_ms, DURATION_MS(100, 3600000), "30s", "ms",                                   \
      "longest time without a call on a connection that was never served; then it is closed")      \
    X(relay_settings_ms, DURATION_MS(100, 3600000), "10s", "ms",                                   \
      "longest wait for a client to acknowledge the server's SETTINGS")                            \
    X(relay_frame_ms, DURATION_MS(100, 3600000), "10s", "ms",                                      \
      "longest time from the first to the last byte of a frame; between two bytes of a DATA "      \
      "frame")                                                                                     \
    X(relay_stall_ms, DURATION_MS(100, 3600000), "20s", "ms",                                      \
      "longest time in which a client may read nothing of what is sent to it")                     \
    X(relay_behind_ms, DURATION_MS(100, 3600000), "8s", "ms",                                      \
      "longest time in which a client that is not read because of these limits may have more "     \
      "data waiting")                                                                              \
    X(relay_half_open_ms, DURATION_MS(100, 3600000), "10s", "ms",                                  \
      "longest time between two bytes of a request")                                               \
    X(relay_request_ms, DURATION_MS(100, 3600000), "2m", "ms", "longest time for a whole request") \
    X(relay_exempt, STRING, "", "",                                                                \
      "networks without limits per address, such as those of proxies: \"10.0.0.0/8, ::1\"")

/* Makes a struct relay_limits from these rows; streams and header bytes are rows of the server. */
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
