/*
 * server - one listening port and the services on it.
 *
 * A process has a server for each port (public, control, health), all on one runtime. Services are
 * tables of methods; a request is guarded (guard.h), unpacked, and handed to the row's function.
 *
 * Every limit is refused with a typed status when a call arrives, never by leaving it waiting:
 * unknown method UNIMPLEMENTED; a call of an inner service without proof UNAUTHENTICATED; too many
 * calls QUEUE_FULL; draining DRAINING; a request that the guard refuses INVALID_ARGUMENT with its
 * field. All but the last by the call's headers, before its message is waited for.
 *
 * Thread: create, drain and destroy from one thread that is not the queue thread; handlers run on
 * the queue thread.
 */
#pragma once

#include "base/status.h"
#include "rpc/relay/limits.h"
#include "rpc/runtime/runtime.h"
#include "rpc/server/call.h"
#include "rpc/tls/tls_files.h"
#include "rpc/tls/tls_identity.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct call_auth;
struct call_counters;
struct rpc_server;
struct rpc_health;

enum rpc_kind {
    RPC_UNARY,
    RPC_SERVER_STREAM,
    /* The handler runs for every message the client sends; the next one is read when all that was
     * sent has left. The call is finished when the client half-closes. */
    RPC_BIDI_STREAM,
};

/* request and what it points to live only until the handler returns. Must not block. */
typedef void (*rpc_handler)(void *service, struct rpc_call *call, const ProtobufCMessage *request);

struct rpc_method {
    const char *path; /* "/package.Service/Method" */
    enum rpc_kind kind;
    const ProtobufCMessageDescriptor *request;
    const ProtobufCMessageDescriptor *response; /* every message sent must be one (asserted) */
    uint32_t request_bytes_max;                 /* 0: the server's message_bytes_max */
    uint32_t elements_max;                      /* 0: RPC_GUARD_ELEMENTS_MAX */
    uint32_t calls_max;                         /* live calls of this row; 0: no own limit */
    bool idles;          /* may stay open for ever; no default deadline, ended first by a drain */
    bool while_draining; /* answered during a drain too */
    bool takes_any_life; /* of an inner service: callers may not know this process's life yet */
    uint32_t roles;      /* of an inner service, where certificates tell: TLS_ROLE_BITs; 0: all */
    rpc_handler handler; /* the service's arg is its first argument */
};

/* name: "package.Service". methods must outlive the server. */
struct rpc_service {
    const char *name;
    const struct rpc_method *methods;
    size_t n_methods;
    void *arg;
    bool is_inner; /* every call must prove that it knows the cluster key (call_auth.h) */
};

/* Asked before the request of a call is looked at. */
struct rpc_doorkeeper {
    void *arg;
    /* Not OK: the call fails with error, which is set. pass_out: what belongs to the call (rpc_call_pass), or NULL. */
    enum status (*enter)(void *arg, const struct rpc_call *call, const char *path, void **pass_out,
                         struct rpc_error *error);
    /* Once a pass, by any thread, when it is decided how the call ends and before its peer hears of that. Must
     * call nothing of rpc. */
    void (*leave)(void *arg, void *pass);
    /* Nobody holds the call any more. */
    void (*destroy)(void *arg, void *pass);
};

struct rpc_server_options {
    uint32_t calls_max; /* live calls of all methods */
    uint32_t message_bytes_max;
    uint32_t header_bytes_max;
    uint32_t streams_per_connection_max;
    uint32_t call_buffer_bytes_max; /* unsent bytes of one call, then SLOW_READER */
    uint64_t buffered_bytes_max;    /* of all calls; past it each is held to its even share */
    uint64_t slow_reader_ns;        /* longest time that one message may stay unsent */
    uint64_t default_deadline_ns;   /* of a call that came without one */
    uint64_t memory_quota_bytes;    /* gRPC's own buffers */
    uint32_t keepalive_time_ms;
    uint32_t keepalive_timeout_ms;
    uint32_t ping_interval_min_ms; /* clients that ping oftener without data are cut off */
    uint32_t connection_age_ms;    /* then GOAWAY; open streams are never cut */
    /* Of what comes before gRPC sees it. streams_max and header_bytes_max are those above. */
    struct relay_limits relay;
    const struct relay_metrics *relay_metrics; /* may be NULL. Outlives it */
    struct call_counters *call_counters;       /* may be NULL. Outlives it */
    struct tls_files *tls;                     /* NULL: clear text. Outlives it */
    /* Not NULL: inner services are for certificates of that cluster and of a method's roles. Outlives it */
    const char *cluster;
    bool reflection;           /* serve grpc.reflection.v1 and v1alpha for these services */
    struct rpc_health *health; /* drained with the server; may be NULL. Outlives it */
    const struct rpc_doorkeeper *doorkeeper; /* NULL: everybody may enter. Outlives the server */
    struct call_auth *auth;                  /* NULL: no service is inner. Outlives it */
};

/* calls 1,024; message 8 MiB; header 16 KiB; streams 256; call buffer 1 MiB; buffered 64 MiB; slow
 * reader 10 s; deadline 10 min; quota 256 MiB; keep-alive 10 s, 5 s; ping 5 s; age 30 min;
 * relay_limits_init's; no reflection; no health. */
void rpc_server_options_init(struct rpc_server_options *options);

/* Listens and serves at once. address: "127.0.0.1:0", "[::1]:50051", "unix:/path".
 * options NULL: the defaults. IO_FAILED: cannot listen there (port in use), said in error;
 * INVALID_ARGUMENT: relay.exempt is no list of networks, too; NO_THREAD. */
MUST_CHECK enum status rpc_server_create(struct rpc_runtime *runtime, const char *address,
                                         const struct rpc_service *services, size_t n_services,
                                         const struct rpc_server_options *options,
                                         struct error *error, struct rpc_server **server_out);

/* The port it really listens on; 0 for a unix socket. */
uint16_t rpc_server_port(const struct rpc_server *server);

/* Clients that are connected are told to send their next calls over another connection, which finds another server where
 * there is one; live calls go on, and calls are taken as before. Does not block. */
void rpc_server_send_away(struct rpc_server *server);
/* Nobody is accepted any more; connections that are there go on. Blocks for a moment. */
void rpc_server_close_port(struct rpc_server *server);
/* From now: health NOT_SERVING, new calls DRAINING, idle streams ended. Does not block. */
void rpc_server_drain_start(struct rpc_server *server);
/* drain_start, then waits until the live calls are over, or limit_ns has passed and the rest has
 * been cancelled; a call of a row with while_draining whose message has not come is not waited for. When all of them
 * are over no handler runs, nor will, but of such rows; who was cancelled and does not end (a warning says so) may be in
 * one still: only destroy waits for that. */
void rpc_server_drain(struct rpc_server *server, uint64_t limit_ns);

/* Cancels what is live, and waits until every call has been released by its holders.
 * NULL is fine. */
void rpc_server_destroy(struct rpc_server *server);

struct rpc_server_counts {
    uint64_t calls_accepted;
    uint64_t calls_refused; /* limits, draining, no proof, unknown method, bad request */
    uint64_t calls_live;    /* whose message has come */
    uint64_t slow_reader_cancels;
    uint64_t buffered_bytes;
};

/* Any thread. */
void rpc_server_counts(struct rpc_server *server, struct rpc_server_counts *counts_out);
