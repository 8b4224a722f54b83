/*
 * caller - who calls a process, as the connection shows it. A caller's share of a schedule or of streams is bounded by it, so nothing
 * that a caller says about itself counts.
 *
 * A caller is a host, whatever the number of its connections. On the loopback and on a Unix socket all connections are of one
 * host; there a caller is a connection, and a generation worker has one.
 *
 * Thread: any.
 */
#pragma once

#include <stdint.h>

/* peer: "ipv4:10.0.0.7:4711", as rpc_call_peer says it. */
uint64_t caller_of_peer(const char *peer);
