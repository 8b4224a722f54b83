/*
 * peer_table - maps the descriptor of a connection in gRPC's core to the client of that connection.
 *
 * The core names such a peer "fd:N", and N stays the same open socket while a call on it is held. So a
 * call finds what was set before N was given to the core.
 *
 * Global state: the table, one in a process. Bound: the descriptors of the process.
 *
 * Thread: any.
 */
#pragma once

#include "base/status.h"
#include "rpc/peer.h"

#include <stdbool.h>

/* NO_MEMORY. */
MUST_CHECK enum status peer_table_set(int fd, const struct rpc_peer *peer);
/* core_peer: "fd:N". False: another format, or no peer was set. */
bool peer_table_find(const char *core_peer, struct rpc_peer *peer_out);
