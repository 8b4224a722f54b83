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

#include "rpc/client/client_call.h"
#include "rpc/client/client_options.h"

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
