/*
 * peer_table - who is at the other end of a connection that gRPC's core was given, by the number of
 * the core's descriptor.
 *
 * The core names such a peer "fd:N", and N stays the same open socket while a call on it is held: what
 * was set before N was handed over is what a call on it finds.
 *
 * Global state: the table, one a process. Bound: the process's descriptors.
 *
 * Thread: any.
 */
#pragma once

#include "base/status.h"
#include "rpc/peer.h"

#include <stdbool.h>

/* NO_MEMORY. */
MUST_CHECK enum status peer_table_set(int fd, const struct rpc_peer *peer);
/* core_peer: "fd:N". False: it is none, or nobody was set. */
bool peer_table_find(const char *core_peer, struct rpc_peer *peer_out);
