/*
 * server_state - the inside of a server: its calls, from their slots to their end, and their limits. Includes gRPC; for
 * rpc/ only.
 *
 * n_objects counts slots and calls; a server is destroyed when it is 0.
 *
 * Locks, in this order: health's, server's, call's. Handlers and on_end functions run with none of them held.
 */
#pragma once

#include "rpc/relay/relay.h"
#include "rpc/runtime/runtime_queue.h"
#include "rpc/server/call_counters.h"
#include "rpc/server/server_options.h"
#include "rpc/server/service.h"

#include <grpc/grpc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct rpc_reflection;

/* A method of one server. */
struct rpc_server_method {
    const struct rpc_method *row;
    void *service; /* the handler's first argument */
    bool is_inner;
    const struct call_method *counted; /* NULL: calls are not counted */
    void *registered;
    atomic_uint n_live;
};

struct rpc_server {
    struct rpc_runtime *runtime;
    struct rpc_server_options options;
    struct rpc_reflection *reflection;
    struct rpc_server_method *methods;
    size_t n_methods;
    grpc_server *server;
    grpc_server_credentials *credentials;
    struct relay *relay;
    uint16_t port;
    bool has_started;
    struct rpc_tick tick;
    uint64_t last_tick_ns; /* 0: none yet */
    struct rpc_tag shut_down;
    atomic_bool is_draining;
    atomic_bool is_closing; /* slots are not armed any more */
    atomic_uint_fast64_t buffered_bytes;
    atomic_uint_fast64_t slow_reader_cancels;
    atomic_uint n_live; /* passed to a handler, not freed */
    atomic_uint n_late; /* of n_open: methods with while_draining, message not arrived */

    pthread_mutex_t lock; /* guards the members below */
    pthread_cond_t changed;
    struct rpc_call *calls; /* accepted, not freed */
    uint32_t n_open;        /* accepted, not over for the peer */
    uint32_t n_objects;     /* armed slots and calls */
    uint64_t n_accepted;
    uint64_t n_refused;
    bool is_shut_down;
};

/* The call was accepted. It counts as open before the server checks whether it drains: so a drain that saw no open
 * call refuses this one. */
void rpc_server_call_came(struct rpc_server *server, struct rpc_call *call, uint64_t now_ns);
/* OK, or the status of the limit that the call exceeds. */
MUST_CHECK enum status rpc_server_call_limit(struct rpc_server *server,
                                             const struct rpc_call *call);
/* Only the queue thread calls it, so that nothing changes between the check and this. */
void rpc_server_call_live(struct rpc_server *server, struct rpc_call *call);
/* Its message has arrived: OK, or the status of the limit that it exceeds. */
MUST_CHECK enum status rpc_server_call_is_whole(struct rpc_server *server, struct rpc_call *call,
                                                struct rpc_error *error);
/* _over: the call is over for the peer. _gone: its object is not used any more. */
void rpc_server_call_over(struct rpc_server *server);
void rpc_server_call_refused(struct rpc_server *server); /* only counts */
void rpc_server_call_gone(struct rpc_server *server, struct rpc_call *call);
