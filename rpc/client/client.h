/*
 * client - calls to other processes: unary and server-streaming, by callbacks or blocking.
 *
 * A channel is the connection to one peer, opened once and kept as long as the peer is known; opening the
 * same address again shares it. It connects at the first call, and reconnects by itself after a failure
 * (at most reconnect_max_ms later). It never retries a call and never uses an HTTP proxy.
 *
 * Messages of a server are checked like requests (guard.h).
 *
 * With a key: if a server does not prove that it knows the key, the call ends with UNAUTHENTICATED before
 * a message or the details of an error are read. Errors that gRPC makes itself (a broken connection, a
 * deadline) need no proof. A call is for the incarnation of the server that last proved itself on the
 * channel, unless for_any_life is set. If another incarnation answers, or none is known yet, the call ends
 * with STALE_PEER, and the new one is known from then on.
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
    /* Not NULL: every call is signed, and nothing is accepted from a server that has not proved that
     * it knows the key (call_auth.h). Borrowed. */
    struct cluster_key *key;
    uint64_t (*now_ms)(void);         /* the time for signatures; NULL: clock_unix_ms */
    const struct rpc_client_tls *tls; /* NULL: clear text. Borrowed */
};

/* message 8 MiB; header 16 KiB; keep-alive 10 s, 5 s; reconnect 1 s; no key. */
void rpc_client_options_init(struct rpc_client_options *options);

/* options NULL: the defaults. */
MUST_CHECK enum status rpc_client_create(struct rpc_runtime *runtime,
                                         const struct rpc_client_options *options,
                                         struct rpc_client **client_out);
bool rpc_client_has_key(const struct rpc_client *client);
/* Cancels the open calls and waits until the last on_end has returned and every call has been
 * released. Every channel must be closed. Not from the queue thread. NULL is fine. */
void rpc_client_destroy(struct rpc_client *client);

/* address: "127.0.0.1:50052", "unix:/path". Counted: each open needs a close. NO_MEMORY, also if files of
 * tls cannot be read. */
MUST_CHECK enum status rpc_channel_open(struct rpc_client *client, const char *address,
                                        struct rpc_channel **channel_out);
/* With tls.cluster: the server must have one of these roles (TLS_ROLE_BITs). */
MUST_CHECK enum status rpc_channel_open_role(struct rpc_client *client, const char *address,
                                             uint32_t roles, struct rpc_channel **channel_out);
/* Open calls continue. NULL is fine. */
void rpc_channel_close(struct rpc_channel *channel);
const char *rpc_channel_address(const struct rpc_channel *channel);
/* The incarnation that last proved itself; 0: none, or the client has no key. In a callback: the one that
 * sent the message or the end. */
uint64_t rpc_channel_life(const struct rpc_channel *channel);

#define RPC_HEADERS_MAX 8

struct rpc_header {
    const char *key; /* lower case */
    const char *value;
};

/* message lives until the function returns. */
typedef void (*rpc_client_message)(void *arg, const ProtobufCMessage *message);
/* error->status is OK or the failure that ended the call; error lives until the function returns. */
typedef void (*rpc_client_end)(void *arg, const struct rpc_error *error);

/* The description of one call. Everything is copied or packed before rpc_channel_start returns. */
struct rpc_request {
    const char *path; /* "/package.Service/Method" */
    const ProtobufCMessage *message;
    const ProtobufCMessageDescriptor *response;
    bool is_stream;        /* else exactly one message arrives before the end with OK */
    bool for_any_life;     /* for a client with a key: any incarnation may answer */
    bool wait_for_ready;   /* waits for a connection until the deadline; else fails at once */
    uint32_t elements_max; /* of one message of the server; 0: RPC_GUARD_ELEMENTS_MAX */
    uint64_t deadline_ns;  /* CLOCK_MONOTONIC, DEADLINE_NONE for none */
    struct rpc_header headers[RPC_HEADERS_MAX];
    size_t n_headers;
    rpc_client_message on_message; /* may be NULL */
    rpc_client_end on_end;
    void *arg;
};

/* The request's origin as headers; must live until the call is started. */
struct rpc_origin_text {
    char traceparent[TRACEPARENT_BYTES + 1];
};
/* Adds the metadata that rpc_call_origin reads, two headers at most. origin and text are borrowed. */
void rpc_request_set_origin(struct rpc_request *request, const struct request_origin *origin,
                            struct rpc_origin_text *text);

/* Starts the call: after OK, on_message runs for each message, then on_end exactly once, maybe
 * before this returns. call_out is one holder, for rpc_client_call_release; it is set before any
 * callback runs. It may be NULL if the call will not be cancelled. NO_MEMORY. */
MUST_CHECK enum status rpc_channel_start(struct rpc_channel *channel,
                                         const struct rpc_request *request,
                                         struct rpc_client_call **call_out);

/* Asks for the end; on_end still runs, with CANCELLED unless the call ended in another way first. */
void rpc_client_call_cancel(struct rpc_client_call *call);
void rpc_client_call_release(struct rpc_client_call *call); /* NULL is fine */

/* Makes the call and waits for its end; on_end is not called (leave it NULL), on_message runs on
 * the queue thread while the caller waits. Returns error_out->status. Not from the queue thread. */
MUST_CHECK enum status rpc_channel_call_wait(struct rpc_channel *channel,
                                             const struct rpc_request *request,
                                             struct rpc_error *error_out);
