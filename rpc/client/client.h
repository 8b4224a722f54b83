/*
 * client - calls to other processes: unary and server-streaming, by callbacks or blocking.
 *
 * A channel is one peer's connection pool, opened once and kept for the peer's life; opening the
 * same address again shares it. It connects on the first call and again by itself after a break
 * (at most reconnect_max_ms later); it never retries a call and never uses an HTTP proxy.
 *
 * What a server sends is guarded like a request (guard.h).
 *
 * With a key: a server that does not prove itself ends the call with UNAUTHENTICATED, before a message
 * or the details of an error are looked at; errors that gRPC makes itself (a broken link, a deadline) need
 * no proof. A call is meant for the life of the server that proved itself last on the channel, unless
 * for_any_life; another life, or none yet, is STALE_PEER, and known from then on.
 *
 * Thread: any, except where said. Callbacks run on the runtime's queue thread and must not block.
 */
#pragma once

#include "base/clock.h"
#include "base/log/request_origin.h"
#include "base/status.h"
#include "rpc/auth/cluster_key.h"
#include "rpc/rpc_error.h"
#include "rpc/runtime/runtime.h"
#include "rpc/tls/client_tls.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rpc_client;
struct rpc_channel;
struct rpc_client_call;

struct rpc_client_options {
    uint32_t message_bytes_max;
    uint32_t header_bytes_max;
    uint32_t keepalive_time_ms;
    uint32_t keepalive_timeout_ms;
    uint32_t reconnect_max_ms;
    /* Not NULL: every call is signed, and nothing of a server's is taken that has not proved that it
     * knows the key (call_auth.h). Borrowed. */
    struct cluster_key *key;
    uint64_t (*now_ms)(void);         /* of what is signed; NULL: clock_unix_ms */
    const struct rpc_client_tls *tls; /* NULL: clear text. Borrowed */
};

/* message 8 MiB; header 16 KiB; keep-alive 10 s, 5 s; reconnect 1 s; no key. */
void rpc_client_options_init(struct rpc_client_options *options);

/* options NULL: the defaults. */
MUST_CHECK enum status rpc_client_create(struct rpc_runtime *runtime,
                                         const struct rpc_client_options *options,
                                         struct rpc_client **client_out);
bool rpc_client_has_key(const struct rpc_client *client);
/* Cancels what is live and waits until the last on_end has returned and every call has been
 * released. Every channel must be closed. Not from the queue thread. NULL is fine. */
void rpc_client_destroy(struct rpc_client *client);

/* address: "127.0.0.1:50052", "unix:/path". Counted: each open needs its close. NO_MEMORY, also for files
 * of tls that cannot be read. */
MUST_CHECK enum status rpc_channel_open(struct rpc_client *client, const char *address,
                                        struct rpc_channel **channel_out);
/* With tls.cluster: who answers must have one of those roles (TLS_ROLE_BITs). */
MUST_CHECK enum status rpc_channel_open_role(struct rpc_client *client, const char *address,
                                             uint32_t roles, struct rpc_channel **channel_out);
/* Calls under way go on. NULL is fine. */
void rpc_channel_close(struct rpc_channel *channel);
const char *rpc_channel_address(const struct rpc_channel *channel);
/* The life (incarnation) that has proved itself last; 0: none, or the client has no key. In a callback of
 * a call: the one that sent what is handed over. */
uint64_t rpc_channel_life(const struct rpc_channel *channel);

#define RPC_HEADERS_MAX 8

struct rpc_header {
    const char *key; /* lower case */
    const char *value;
};

/* message lives until the function returns. */
typedef void (*rpc_client_message)(void *arg, const ProtobufCMessage *message);
/* error->status is OK or what ended the call; error lives until the function returns. */
typedef void (*rpc_client_end)(void *arg, const struct rpc_error *error);

/* One call to make. Everything is copied or packed before rpc_channel_start returns. */
struct rpc_request {
    const char *path; /* "/package.Service/Method" */
    const ProtobufCMessage *message;
    const ProtobufCMessageDescriptor *response;
    bool is_stream;        /* else exactly one message comes before an OK end */
    bool for_any_life;     /* of a client with a key: whichever life answers */
    bool wait_for_ready;   /* wait for a connection until the deadline; else fail at once */
    uint32_t elements_max; /* in one message of the server; 0: RPC_GUARD_ELEMENTS_MAX */
    uint64_t deadline_ns;  /* CLOCK_MONOTONIC, DEADLINE_NONE for none */
    struct rpc_header headers[RPC_HEADERS_MAX];
    size_t n_headers;
    rpc_client_message on_message; /* may be NULL */
    rpc_client_end on_end;
    void *arg;
};

/* What a request's headers say of its origin; lives until the call is started. */
struct rpc_origin_text {
    char traceparent[TRACEPARENT_BYTES + 1];
};
/* Names the request by the metadata that rpc_call_origin reads, two headers at most. origin is borrowed as
 * text is. */
void rpc_request_set_origin(struct rpc_request *request, const struct request_origin *origin,
                            struct rpc_origin_text *text);

/* Starts the call: after OK, on_message for each message, then on_end exactly once, maybe before
 * this returns. call_out (may be NULL: nobody will cancel it) is one holder, for
 * rpc_client_call_release; it is set before any callback runs. NO_MEMORY. */
MUST_CHECK enum status rpc_channel_start(struct rpc_channel *channel,
                                         const struct rpc_request *request,
                                         struct rpc_client_call **call_out);

/* Asks for the end; on_end still comes, with CANCELLED unless the call ended otherwise first. */
void rpc_client_call_cancel(struct rpc_client_call *call);
void rpc_client_call_release(struct rpc_client_call *call); /* NULL is fine */

/* Makes the call and waits for its end; on_end is not called (leave it NULL), on_message runs on
 * the queue thread while the caller waits. Returns error_out->status. Not from the queue thread. */
MUST_CHECK enum status rpc_channel_call_wait(struct rpc_channel *channel,
                                             const struct rpc_request *request,
                                             struct rpc_error *error_out);
