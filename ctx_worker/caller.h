/*
 * caller - who asks for prefills, whose share of the schedule is bounded: nothing that the caller says of itself.
 *
 * A host, whatever the number of its connections. On the loopback and a Unix socket, where all are of one host, it is the
 * connection: a generation worker has one.
 *
 * Thread: any.
 */
#pragma once

#include <stdint.h>

/* peer: "ipv4:10.0.0.7:4711", as rpc_call_peer says it. */
uint64_t caller_of_peer(const char *peer);
