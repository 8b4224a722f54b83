/*
 * http_limits - what one client, one address and all together may do to an HTTP port.
 *
 * Times are in nanoseconds. Limits of an address do not hold for exempt networks (rpc/relay/address_book.h).
 *
 * Plain data.
 */
#pragma once

#include "base/metrics/metrics.h"
#include "base/status.h"

#include <stdint.h>

struct http_limits {
    uint32_t connections_max;
    uint32_t address_connections_max;
    uint32_t address_connections_per_s;
    uint32_t requests_max; /* whole ones that have no whole answer */
    uint32_t address_requests_max;
    uint32_t target_bytes_max; /* of the path with its query, as sent */
    uint32_t head_bytes_max;   /* request line and fields; of a chunked body its trailers, too */
    uint32_t fields_max;       /* header fields of a request */
    uint64_t body_bytes_max;   /* of one request */
    uint64_t bodies_bytes_max; /* of all bodies above HTTP_SMALL_BODY_BYTES together */
    uint64_t address_bodies_bytes_max;
    uint64_t unsent_bytes_max;     /* of one answer that is a stream */
    uint64_t all_unsent_bytes_max; /* of all; past it each is held to its even share */
    uint64_t reply_bytes_max;      /* of an answer that is one body */
    uint64_t handshake_ns;         /* of TLS */
    uint64_t head_ns;          /* from a connection's begin, or a head's first byte, to its end */
    uint64_t body_ns;          /* of a whole body */
    uint64_t body_gap_ns;      /* between two bytes of a body */
    uint64_t idle_ns;          /* between two requests */
    uint64_t slow_reader_ns;   /* until a reader has taken all, or HTTP_READER_BYTES of it */
    uint64_t keepalive_ns;     /* of silence, until the kernel asks whether the client is there */
    uint64_t quiet_ns;         /* while nothing of an answer is sent: on_quiet, again and again */
    uint32_t handshakes_per_s; /* TLS handshakes begun on the port; the others wait */
    const char *exempt;        /* networks: "10.0.0.0/8, ::1"; borrowed */
};

#define HTTP_SMALL_BODY_BYTES                                                                      \
    65536u /* a body of this size or less needs no room among the bodies */
#define HTTP_READER_BYTES         65536u
#define HTTP_ALL_UNSENT_BYTES_MAX (64u << 20) /* as of gRPC calls */

/* connections 1,024, of an address 256, 100 a second; requests 1,024, of an address 768; target 8 KiB; head 16 KiB in
 * 100 fields; body 8 MiB, of all 96 MiB, of an address 32 MiB; unsent 1 MiB, of all 64 MiB; reply 64 MiB; handshake 5 s;
 * head 10 s; body 2 min, 10 s between two bytes; idle 75 s; slow reader 10 s; keepalive 10 s; quiet 15 s; 200 handshakes/s; nobody
 * exempt. */
void http_limits_init(struct http_limits *limits);

/* Each limit, as the metric's label names it. */
#define HTTP_LIMIT_TABLE(X)                                                                        \
    X(CONNECTIONS, "connections")                                                                  \
    X(ADDRESS_CONNECTIONS, "address_connections")                                                  \
    X(ADDRESS_CONNECTION_RATE, "address_connection_rate")                                          \
    X(REQUESTS, "requests")                                                                        \
    X(ADDRESS_REQUESTS, "address_requests")                                                        \
    X(HEAD, "head")                                                                                \
    X(BODY, "body")                                                                                \
    X(BODIES, "bodies")                                                                            \
    X(ADDRESS_BODIES, "address_bodies")                                                            \
    X(UNSENT, "unsent")                                                                            \
    X(HANDSHAKE_TIME, "handshake_time")                                                            \
    X(HEAD_TIME, "head_time")                                                                      \
    X(BODY_TIME, "body_time")                                                                      \
    X(IDLE_TIME, "idle_time")                                                                      \
    X(SLOW_READER, "slow_reader")                                                                  \
    X(TLS, "tls")                                                                                  \
    X(PROTOCOL, "protocol")                                                                        \
    X(DESCRIPTORS, "descriptors")

enum http_limit {
#define X(name, text) HTTP_LIMIT_##name,
    HTTP_LIMIT_TABLE(X)
#undef X
        HTTP_N_LIMITS
};

#define HTTP_N_CODE_CLASSES 5 /* 1xx .. 5xx */

/* Of all HTTP ports of a process. */
struct http_metrics {
    struct gauge *connections;
    struct gauge *running;
    struct counter *accepted;
    struct counter *handshakes;
    struct counter *received_bytes;
    struct counter *sent_bytes;
    struct counter *answers[HTTP_N_CODE_CLASSES]; /* by the first digit of the code, less 1 */
    struct counter *unanswered;                   /* requests whose client heard no code */
    struct counter *cut;                          /* answers that began and did not end */
    struct counter *struck[HTTP_N_LIMITS];
};

void http_metrics_init(struct http_metrics *http_metrics, struct metrics *metrics);
