/*
 * http_config - how the rows of an HTTP port and those of the gRPC ports get into its limits: what is true of every port has one
 * row.
 */
#pragma once

#include "base/clock.h"
#include "process/ports/http_config.h"

/* A struct http_limits of these rows and of those of the gRPC ports. */
#define HTTP_LIMITS(config)                                                                        \
    {                                                                                              \
        .connections_max = (config)->relay_connections_max,                                        \
        .address_connections_max = (config)->relay_address_connections_max,                        \
        .address_connections_per_s = (config)->relay_address_connections_per_s,                    \
        .requests_max = (config)->calls_max,                                                       \
        .address_requests_max = (config)->relay_address_streams_max,                               \
        .target_bytes_max = (uint32_t)(config)->http_target_bytes_max,                             \
        .head_bytes_max = (uint32_t)(config)->header_bytes_max,                                    \
        .fields_max = (config)->http_fields_max, .body_bytes_max = (config)->message_bytes_max,    \
        .bodies_bytes_max = (config)->relay_request_bytes_max,                                     \
        .address_bodies_bytes_max = (config)->relay_address_request_bytes_max,                     \
        .unsent_bytes_max = (config)->stream_buffer_bytes_max,                                     \
        .all_unsent_bytes_max = HTTP_ALL_UNSENT_BYTES_MAX,                                         \
        .reply_bytes_max = (config)->http_reply_bytes_max,                                         \
        .handshake_ns = (config)->relay_handshake_ms * NS_PER_MS,                                  \
        .head_ns = (config)->http_head_ms * NS_PER_MS,                                             \
        .body_ns = (config)->relay_request_ms * NS_PER_MS,                                         \
        .body_gap_ns = (config)->relay_half_open_ms * NS_PER_MS,                                   \
        .idle_ns = (config)->http_idle_ms * NS_PER_MS,                                             \
        .slow_reader_ns = (config)->slow_reader_ms * NS_PER_MS,                                    \
        .keepalive_ns = (config)->keepalive_ms * NS_PER_MS,                                        \
        .quiet_ns = (config)->http_comment_ms * NS_PER_MS,                                         \
        .handshakes_per_s = (config)->relay_handshakes_per_s, .exempt = (config)->relay_exempt,    \
    }
