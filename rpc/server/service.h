/*
 * service - the table of methods of a gRPC service, and their handlers.
 *
 * Thread: any (plain data); handlers run on the queue thread.
 */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rpc_call;

enum rpc_kind {
    RPC_UNARY,
    RPC_SERVER_STREAM,
    /* The handler runs for every message of the client; the next one is read when all answers are
     * sent. The call finishes when the client half-closes. */
    RPC_BIDI_STREAM,
};

/* request and its contents live only until the handler returns. Must not block. */
typedef void (*rpc_handler)(void *service, struct rpc_call *call, const ProtobufCMessage *request);

struct rpc_method {
    const char *path; /* "/package.Service/Method" */
    enum rpc_kind kind;
    const ProtobufCMessageDescriptor *request;
    const ProtobufCMessageDescriptor *response; /* type of all sent messages (asserted) */
    uint32_t request_bytes_max;                 /* 0: the server's message_bytes_max */
    uint32_t elements_max;                      /* 0: RPC_GUARD_ELEMENTS_MAX */
    uint32_t calls_max; /* live calls of this method; 0: no separate limit */
    bool idles; /* may stay open without limit; no default deadline; a drain ends it first */
    bool while_draining; /* also answered during a drain */
    bool takes_any_life; /* of an inner service: callers need not know this process's incarnation */
    uint32_t roles;      /* of an inner service, if certificates are used: TLS_ROLE_BITs; 0: all */
    rpc_handler handler; /* gets the service's arg as its first argument */
};

/* name: "package.Service". methods must outlive the server. */
struct rpc_service {
    const char *name;
    const struct rpc_method *methods;
    size_t n_methods;
    void *arg;
    bool is_inner; /* every call must prove that it knows the cluster key (call_auth.h) */
};
