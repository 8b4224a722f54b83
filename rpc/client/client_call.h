/*
 * client_call - one call on a channel of a client (client.h): unary or server-streaming, by callbacks or blocking.
 *
 * Thread: any, except where said. Callbacks run on the runtime's queue thread and must not block.
 */
#pragma once

#include "base/log/request_origin.h"
#include "base/status.h"
#include "rpc/rpc_error.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rpc_channel;
struct rpc_client_call;

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
