/*
 * service - a table of methods, and the functions that answer them.
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
