/*
 * process_config - the configuration rows of every role, and how they become process options.
 *
 * A role puts PROCESS_CONFIG_ROWS(X) first in its table and passes PROCESS_OPTIONS(config) to
 * process_open.
 */
#pragma once

#include "base/config/config.h"
#include "process/ports/relay_config.h"

#define ACCESS_LOG_CONFIG_ROW(X)                                                                   \
    X(access_log, BOOL, "yes", "", "write one log line for each request when it ends")

#define TRACE_CONFIG_ROWS(X)                                                                       \
    X(otlp_endpoint, STRING, "", "",                                                               \
      "OpenTelemetry collector (host:port) that gets the traces, OTLP over gRPC "                  \
      "(docs/tracing.md); empty: nothing is recorded")                                             \
    X(otlp_tls_ca, STRING, "", "path",                                                             \
      "CA certificates (PEM) to verify the collector over TLS; empty: clear text")                 \
    X(trace_ratio, F64(0, 1), "0.01", "",                                                          \
      "share of requests recorded when they arrive without a trace; a request with a trace "       \
      "follows its sampled flag")                                                                  \
    X(trace_rate_max, U32(1, 1000000), "100", "requests/s",                                        \
      "most requests recorded in a second, including those that a client asks to trace")

#define TLS_CONFIG_ROWS(X)                                                                         \
    X(tls_certificate, STRING, "", "path",                                                         \
      "certificate chain (PEM): turns on TLS on the grpc and health ports (docs/tls.md)")          \
    X(tls_key, STRING, "", "path", "private key (PEM) of tls_certificate")                         \
    X(tls_client_ca, STRING, "", "path",                                                           \
      "CA certificates (PEM): clients of the grpc port must present a certificate signed by one "  \
      "of them")                                                                                   \
    X(health_tls, BOOL, "yes", "",                                                                 \
      "no: the health port stays in clear text even with tls_certificate, for probes that cannot " \
      "use TLS")

enum process_seccomp { SECCOMP_OFF, SECCOMP_ON };

/* The rows for calls to other processes of the cluster; the purpose of the certificate differs. */
#define PROCESS_PEER_ROWS(X, certificate_help)                                                     \
    X(peer_certificate, STRING, "", "path", certificate_help)                                      \
    X(peer_key, STRING, "", "path", "private key (PEM) of peer_certificate")                       \
    X(peer_ca, STRING, "", "path", "CA certificates (PEM) that verify the cluster's processes")    \
    X(cluster_name, STRING, "kvferry", "",                                                         \
      "the CLUSTER part of the URIs in the cluster's certificates")

#define PROCESS_CONFIG_ROWS(X)                                                                     \
    CONFIG_COMMON_ROWS(X)                                                                          \
    ACCESS_LOG_CONFIG_ROW(X)                                                                       \
    TRACE_CONFIG_ROWS(X)                                                                           \
    X(name, STRING, "", "",                                                                        \
      "name of this process in replies; empty: the host name, with the port if that is on a "      \
      "loopback address")                                                                          \
    X(advertise_address, STRING, "", "",                                                           \
      "host, without a port, at which other processes reach this process's non-loopback ports; "   \
      "empty: the bound address, or that of a network interface")                                  \
    X(control_address, STRING, "127.0.0.1:50052", "",                                              \
      "address of the internal gRPC services and AdminService; port 0: any free port; no host: "   \
      "all interfaces")                                                                            \
    X(health_address, STRING, "127.0.0.1:50053", "", "address of grpc.health.v1")                  \
    X(dry_run, BOOL, "no", "",                                                                     \
      "print what a start would create and allocate, and whether it fits now, then exit")          \
    X(insecure, BOOL, "no", "", "allow non-loopback addresses without TLS")                        \
    X(ports_file, STRING, "", "", "file to which the bound addresses are written, as JSON")        \
    X(parent_pid, HIDDEN(U32(0, 4194304)), "0", "", "process whose end stops this one; 0: none")   \
    X(drain_delay_ms, DURATION_MS(0, 3600000), "0", "ms",                                          \
      "after SIGTERM or a drain, time in which the process reports not ready but still accepts "   \
      "requests; in its last second, clients of the public port are asked to connect elsewhere")   \
    X(drain_limit_ms, DURATION_MS(0, 3600000), "30s", "ms",                                        \
      "longest time that SIGTERM waits for open requests, after drain_delay_ms, before it "        \
      "cancels them")                                                                              \
    X(calls_max, U32(1, 65536), "1024", "calls", "most open calls on one port")                    \
    X(message_bytes_max, SIZE(65536, 67108864), "8M", "bytes", "largest message accepted")         \
    X(header_bytes_max, SIZE(4096, 1048576), "16K", "bytes", "largest list of headers accepted")   \
    X(streams_per_connection_max, U32(1, 65536), "256", "streams",                                 \
      "most open calls on one connection")                                                         \
    X(stream_buffer_bytes_max, SIZE(4096, 67108864), "1M", "bytes",                                \
      "most unread bytes of one call before it is cancelled because its client reads too slowly")  \
    X(slow_reader_ms, DURATION_MS(100, 3600000), "10s", "ms",                                      \
      "longest time a message may stay unread before its call is cancelled")                       \
    X(default_deadline_ms, DURATION_MS(100, 86400000), "10m", "ms",                                \
      "deadline of a call that sets none")                                                         \
    X(keepalive_ms, DURATION_MS(1000, 3600000), "10s", "ms",                                       \
      "silence on a connection before a keepalive ping is sent")                                   \
    X(keepalive_timeout_ms, DURATION_MS(100, 3600000), "5s", "ms",                                 \
      "longest wait for the answer to a ping before the connection is closed")                     \
    X(connection_age_ms, DURATION_MS(1000, 86400000), "30m", "ms",                                 \
      "age at which a client is asked to reconnect; open streams are not cut")                     \
    X(watchdog_ms, DURATION_MS(100, 3600000), "10s", "ms",                                         \
      "longest time that a gRPC thread, a model layer or a round of the transfer thread may take " \
      "before the process reports that it is not live")                                            \
    RELAY_CONFIG_ROWS(X)                                                                           \
    X(core_dumps, BOOL, "no", "",                                                                  \
      "write a core file after a crash, and allow debuggers: both expose prompts and keys")        \
    X(seccomp, WORD(enum process_seccomp, "off|on"), "off", "",                                    \
      "on: once the process serves, a system call that no role needs ends it")                     \
    X(cluster_key, STRING, "", "path",                                                             \
      "file with the key that all processes of a cluster share (see `kvferry key`); empty: this "  \
      "user's key on this host")                                                                   \
    X(cluster_key_fd, HIDDEN(U32(0, 1048576)), "0", "",                                            \
      "descriptor that has such a file; 0: none")                                                  \
    X(auth_nonces_max, U32(1024, 16777216), "262144", "calls",                                     \
      "most calls between processes accepted in 30 s; each is remembered to detect replays, and "  \
      "further calls are refused")                                                                 \
    TLS_CONFIG_ROWS(X)                                                                             \
    PROCESS_PEER_ROWS(                                                                             \
        X, "certificate of this process (PEM) with the URI kvferry://CLUSTER/role/ROLE: turns on " \
           "mTLS on the control port and in calls to other processes")

/* Initialises the members of struct process_options from these rows. */
#define PROCESS_OPTIONS(config)                                                                    \
    .name = (config)->name, .advertise_address = (config)->advertise_address,                      \
    .control_address = (config)->control_address, .health_address = (config)->health_address,      \
    .metrics_address = (config)->metrics_address, .ports_file = (config)->ports_file,              \
    .log_level = (config)->log_level, .log_format = (config)->log_format,                          \
    .access_log = (config)->access_log, .dry_run = (config)->dry_run,                              \
    .insecure = (config)->insecure, .parent_pid = (config)->parent_pid,                            \
    .drain_delay_ms = (config)->drain_delay_ms, .drain_limit_ms = (config)->drain_limit_ms,        \
    .keepalive_ms = (config)->keepalive_ms,                                                        \
    .keepalive_timeout_ms = (config)->keepalive_timeout_ms, .calls_max = (config)->calls_max,      \
    .message_bytes_max = (config)->message_bytes_max,                                              \
    .header_bytes_max = (config)->header_bytes_max,                                                \
    .streams_per_connection_max = (config)->streams_per_connection_max,                            \
    .stream_buffer_bytes_max = (config)->stream_buffer_bytes_max,                                  \
    .slow_reader_ms = (config)->slow_reader_ms,                                                    \
    .default_deadline_ms = (config)->default_deadline_ms,                                          \
    .connection_age_ms = (config)->connection_age_ms, .watchdog_ms = (config)->watchdog_ms,        \
    .relay = RELAY_LIMITS(config), .core_dumps = (config)->core_dumps,                             \
    .seccomp = (config)->seccomp, .cluster_key = (config)->cluster_key,                            \
    .cluster_key_fd = (int)(config)->cluster_key_fd, .auth_nonces_max = (config)->auth_nonces_max, \
    .trace =                                                                                       \
        {                                                                                          \
            .endpoint = (config)->otlp_endpoint,                                                   \
            .ca = (config)->otlp_tls_ca,                                                           \
            .ratio = (config)->trace_ratio,                                                        \
            .rate_max = (config)->trace_rate_max,                                                  \
    },                                                                                             \
    .tls = {                                                                                       \
        .certificate = (config)->tls_certificate,                                                  \
        .key = (config)->tls_key,                                                                  \
        .client_ca = (config)->tls_client_ca,                                                      \
        .has_clear_health = !(config)->health_tls,                                                 \
        .peer_certificate = (config)->peer_certificate,                                            \
        .peer_key = (config)->peer_key,                                                            \
        .peer_ca = (config)->peer_ca,                                                              \
        .cluster_name = (config)->cluster_name,                                                    \
    }
