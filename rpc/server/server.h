/*
 * server - one listening port and the services on it.
 *
 * A process has a server for each port (public, control, health), all on one runtime. Services are
 * tables of methods; a request is checked (guard.h), unpacked, and passed to the method's handler.
 *
 * A call that exceeds a limit is refused with a typed status when it arrives; it never has to wait.
 * Unknown method: UNIMPLEMENTED; a call of an inner service without proof: UNAUTHENTICATED; too
 * many calls: QUEUE_FULL; draining: DRAINING; a request that the guard refuses: INVALID_ARGUMENT
 * with its field. All but the last are decided by the headers, before the message arrives.
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

/* Listens and serves at once. address: "127.0.0.1:0", "[::1]:50051", "unix:/path". options NULL:
 * the defaults. IO_FAILED: it cannot listen there (port in use); INVALID_ARGUMENT, also:
 * relay.exempt is no list of networks; NO_THREAD. error has a sentence. */
MUST_CHECK enum status rpc_server_create(struct rpc_runtime *runtime, const char *address,
                                         const struct rpc_service *services, size_t n_services,
                                         const struct rpc_server_options *options,
                                         struct error *error, struct rpc_server **server_out);

/* The bound port; 0 for a Unix socket. */
uint16_t rpc_server_port(const struct rpc_server *server);

/* Tells the connected clients to send their next calls over another connection, which may reach another server. Live
 * calls continue, and new calls are accepted as before. Does not block. */
void rpc_server_send_away(struct rpc_server *server);
/* Accepts no more connections; open ones continue. Blocks for a moment. */
void rpc_server_close_port(struct rpc_server *server);
/* From now on: health says NOT_SERVING, new calls get DRAINING, idle streams end. Does not block. */
void rpc_server_drain_start(struct rpc_server *server);
/* Calls drain_start, then waits until the live calls are over; after limit_ns it cancels the rest. It does not wait for
 * calls of methods with while_draining whose message has not arrived. When all are over, no handler runs or will run,
 * except for such methods. A cancelled call that does not end (a warning says so) may still be in a handler: only
 * destroy waits for it. */
void rpc_server_drain(struct rpc_server *server, uint64_t limit_ns);

/* Cancels the live calls, and waits until the holders have released every call. NULL is fine. */
void rpc_server_destroy(struct rpc_server *server);

struct rpc_server_counts {
    uint64_t calls_accepted;
    uint64_t calls_refused; /* limits, draining, no proof, unknown method, bad request */
    uint64_t calls_live;    /* calls whose message has arrived */
    uint64_t slow_reader_cancels;
    uint64_t buffered_bytes;
};

/* Any thread. */
void rpc_server_counts(struct rpc_server *server, struct rpc_server_counts *counts_out);
