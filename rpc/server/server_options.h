/*
 * server_options - the options of a server: its limits, who may call it, TLS and the cluster key.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "base/status.h"
#include "rpc/relay/limits.h"

#include <stdbool.h>
#include <stdint.h>

struct call_auth;
struct call_counters;
struct rpc_call;
struct rpc_error;
struct rpc_health;
struct tls_files;

/* Decides whether a call is admitted, before its request is read. */
struct rpc_doorkeeper {
    void *arg;
    /* Not OK: the call fails with error, which is set. pass_out: an object for the call (rpc_call_pass), or NULL. */
    enum status (*enter)(void *arg, const struct rpc_call *call, const char *path, void **pass_out,
                         struct rpc_error *error);
    /* Called once for each pass, by any thread, when it is decided how the call ends and before the peer is
     * told. Must not call rpc functions. */
    void (*leave)(void *arg, void *pass);
    /* The call has no holder any more. */
    void (*destroy)(void *arg, void *pass);
};

struct rpc_server_options {
    uint32_t calls_max; /* live calls of all methods */
    uint32_t message_bytes_max;
    uint32_t header_bytes_max;
    uint32_t streams_per_connection_max;
    uint32_t call_buffer_bytes_max; /* unsent bytes of one call, then SLOW_READER */
    uint64_t buffered_bytes_max;    /* of all calls; beyond it each call gets an even share */
    uint64_t slow_reader_ns;        /* longest time that one message may stay unsent */
    uint64_t default_deadline_ns;   /* of a call without a deadline */
    uint64_t memory_quota_bytes;    /* gRPC's own buffers */
    uint32_t keepalive_time_ms;
    uint32_t keepalive_timeout_ms;
    uint32_t ping_interval_min_ms; /* clients that ping more often without data are disconnected */
    uint32_t connection_age_ms;    /* then GOAWAY; open streams always finish */
    /* Limits before gRPC reads anything. streams_max and header_bytes_max come from above. */
    struct relay_limits relay;
    const struct relay_metrics *relay_metrics; /* may be NULL. Outlives it */
    struct call_counters *call_counters;       /* may be NULL. Outlives it */
    struct tls_files *tls;                     /* NULL: clear text. Outlives it */
    /* Not NULL: callers of inner services need a certificate of that cluster with a role of the method.
     * Outlives it */
    const char *cluster;
    bool reflection;           /* serve grpc.reflection.v1 and v1alpha for these services */
    struct rpc_health *health; /* drains with the server; may be NULL. Outlives it */
    const struct rpc_doorkeeper *doorkeeper; /* NULL: all calls are admitted. Outlives the server */
    struct call_auth *auth;                  /* NULL: no inner services. Outlives it */
};

/* calls 1,024; message 8 MiB; header 16 KiB; streams 256; call buffer 1 MiB; buffered 64 MiB; slow
 * reader 10 s; deadline 10 min; quota 256 MiB; keep-alive 10 s, 5 s; ping 5 s; age 30 min; those of
 * relay_limits_init; no reflection; no health. */
void rpc_server_options_init(struct rpc_server_options *options);
