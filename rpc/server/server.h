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
#include "rpc/runtime/runtime.h"
#include "rpc/server/call.h"
#include "rpc/server/server_options.h"
#include "rpc/server/service.h"
#include "rpc/tls/tls_files.h"
#include "rpc/tls/tls_identity.h"

#include <stddef.h>
#include <stdint.h>

struct rpc_server;

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
