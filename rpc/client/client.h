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

#include "rpc/client/client_call.h"
#include "rpc/client/client_options.h"

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
