/*
 * process_config - the rows that every role has, and how they reach process.h.
 *
 * A role puts PROCESS_CONFIG_ROWS(X) first in its own table and hands PROCESS_OPTIONS(config) on.
 */
#pragma once

#include "base/config/config.h"
#include "process/ports/relay_config.h"

#define ACCESS_LOG_CONFIG_ROW(X)                                                                   \
    X(access_log, BOOL, "yes", "", "a line of log for each request, at its end")

#define TRACE_CONFIG_ROWS(X)                                                                       \
    X(otlp_endpoint, STRING, "", "",                                                               \
      "collector of traces, host:port, OTLP over gRPC (docs/tracing.md); empty: nothing is "       \
      "recorded")                                                                                  \
    X(otlp_tls_ca, STRING, "", "path", "CAs of its certificate, PEM: TLS; empty: clear text")      \
    X(trace_ratio, F64(0, 1), "0.01", "",                                                          \
      "part of the requests that is recorded when they come with no trace; else its flag decides") \
    X(trace_rate_max, U32(1, 1000000), "100", "requests/s",                                        \
      "requests recorded in a second, whoever asks for it")

#define TLS_CONFIG_ROWS(X)                                                                         \
    X(tls_certificate, STRING, "", "path",                                                         \
      "certificate chain, PEM: the grpc and health ports speak TLS (docs/tls.md)")                 \
    X(tls_key, STRING, "", "path", "its private key, PEM")                                         \
    X(tls_client_ca, STRING, "", "path",                                                           \
      "CAs, PEM: clients of the grpc port must show a certificate of theirs")                      \
    X(health_tls, BOOL, "yes", "",                                                                 \
      "no: the health port stays in clear text beside a tls_certificate, for probes that speak "   \
      "no TLS")

enum process_seccomp { SECCOMP_OFF, SECCOMP_ON };

/* The rows of who calls others of the cluster; what the certificate is for differs. */
#define PROCESS_PEER_ROWS(X, certificate_help)                                                     \
    X(peer_certificate, STRING, "", "path", certificate_help)                                      \
    X(peer_key, STRING, "", "path", "its private key, PEM")                                        \
    X(peer_ca, STRING, "", "path", "CAs of the cluster's certificates, PEM")                       \
    X(cluster_name, STRING, "kvferry", "", "CLUSTER in the cluster's certificates")

#define PROCESS_CONFIG_ROWS(X)                                                                     \
    CONFIG_COMMON_ROWS(X)                                                                          \
    ACCESS_LOG_CONFIG_ROW(X)                                                                       \
    TRACE_CONFIG_ROWS(X)                                                                           \
    X(name, STRING, "", "",                                                                        \
      "name of this process in replies; empty: the host's, with the port where that is a "         \
      "loopback's")                                                                                \
    X(advertise_address, STRING, "", "",                                                           \
      "host under which others reach ports that are no loopback's, without a port; empty: the "    \
      "one that is bound, or of an interface")                                                     \
    X(control_address, STRING, "127.0.0.1:50052", "",                                              \
      "where the inner services and AdminService listen; port 0: any free one; no host: "          \
      "everywhere")                                                                                \
    X(health_address, STRING, "127.0.0.1:50053", "", "where grpc.health.v1 listens")               \
    X(dry_run, BOOL, "no", "",                                                                     \
      "print what a start would build and take, and whether that fits here now; then end")         \
    X(insecure, BOOL, "no", "", "allow addresses that are no loopback, without TLS")               \
    X(ports_file, STRING, "", "", "file that gets the bound addresses, as JSON")                   \
    X(parent_pid, HIDDEN(U32(0, 4194304)), "0", "", "process whose end stops this one; 0: none")   \
    X(drain_delay_ms, DURATION_MS(0, 3600000), "0", "ms",                                          \
      "how long a process that is told to stop or to drain, and says not ready at once, still "    \
      "takes new requests; in its last second clients of the public port are sent to others")      \
    X(drain_limit_ms, DURATION_MS(0, 3600000), "30s", "ms",                                        \
      "how long SIGTERM waits for open requests, after the delay, before it cancels them")         \
    X(calls_max, U32(1, 65536), "1024", "calls", "live calls on one port")                         \
    X(message_bytes_max, SIZE(65536, 67108864), "8M", "bytes", "longest message taken")            \
    X(header_bytes_max, SIZE(4096, 1048576), "16K", "bytes", "longest list of headers taken")      \
    X(streams_per_connection_max, U32(1, 65536), "256", "streams", "open calls of one connection") \
    X(stream_buffer_bytes_max, SIZE(4096, 67108864), "1M", "bytes",                                \
      "unread bytes of one call before it is cancelled as a slow reader")                          \
    X(slow_reader_ms, DURATION_MS(100, 3600000), "10s", "ms",                                      \
      "how long a message may stay unread before the call is cancelled")                           \
    X(default_deadline_ms, DURATION_MS(100, 86400000), "10m", "ms",                                \
      "deadline of a call that names none")                                                        \
    X(keepalive_ms, DURATION_MS(1000, 3600000), "10s", "ms", "silence before a ping is sent")      \
    X(keepalive_timeout_ms, DURATION_MS(100, 3600000), "5s", "ms",                                 \
      "silence after a ping before the connection is given up")                                    \
    X(connection_age_ms, DURATION_MS(1000, 86400000), "30m", "ms",                                 \
      "age at which a connection is asked to go; streams are never cut")                           \
    X(watchdog_ms, DURATION_MS(100, 3600000), "10s", "ms",                                         \
      "a thread of gRPC, a layer of a step or a transfer round that takes longer: not live")       \
    RELAY_CONFIG_ROWS(X)                                                                           \
    X(core_dumps, BOOL, "no", "",                                                                  \
      "write a core file in a crash, and let debuggers in: it holds prompts and keys")             \
    X(seccomp, WORD(enum process_seccomp, "off|on"), "off", "",                                    \
      "on: once it serves, a system call that no role needs ends the process")                     \
    X(cluster_key, STRING, "", "path",                                                             \
      "file of the key that the processes of a cluster share (`kvferry key`); empty: that of "     \
      "this "                                                                                      \
      "user on this host")                                                                         \
    X(cluster_key_fd, HIDDEN(U32(0, 1048576)), "0", "",                                            \
      "descriptor that has such a file; 0: none")                                                  \
    X(auth_nonces_max, U32(1024, 16777216), "262144", "calls",                                     \
      "inner calls taken in 30 s: each is remembered, and refused when there is no room")          \
    TLS_CONFIG_ROWS(X)                                                                             \
    PROCESS_PEER_ROWS(                                                                             \
        X, "certificate of this process with the URI kvferry://CLUSTER/role/ROLE, PEM: mTLS on "   \
           "the control port and in calls to other processes")

/* The members of struct process_options that come from these rows. */
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
