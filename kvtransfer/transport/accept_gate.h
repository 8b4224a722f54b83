/*
 * accept_gate - keeps strangers away from the port of UCX's TCP transport. UCX aborts the process when it reads
 * thirteen bytes there that it does not expect.
 *
 * The program defines listen, accept and accept4 itself; they replace those of the C library. A socket that a
 * thread makes listen between begin and end is gated. A connection to it is closed before UCX reads a byte, unless
 *     its address is that of a permitted worker, and,
 *     when this is an address of this host, the other end belongs to a process of this user.
 * The C library handles all other sockets.
 *
 * The gate cannot tell processes of one user apart. It cannot tell a process on another host with a permitted
 * address from the worker there.
 *
 * Bounds: GATED_SOCKETS_MAX sockets, then listen fails; PERMITS_MAX workers, then the oldest permit is dropped.
 * Global state: these two tables, since a process has the symbols once.
 * Thread: any.
 */
#pragma once

#include "kvtransfer/transport/host_address.h"

#define GATED_SOCKETS_MAX 64u
#define PERMITS_MAX       4096u

/* owner names the gate for accept_gate_close. */
void accept_gate_begin(const void *owner);
void accept_gate_end(void);
/* Its sockets are closed, or will be. */
void accept_gate_close(const void *owner);

/* Again for the same incarnation: these hosts instead. */
void accept_gate_permit(uint64_t incarnation, const struct host_address *hosts, uint32_t n_hosts);
void accept_gate_revoke(uint64_t incarnation);

uint64_t accept_gate_refused(void); /* connections, since the start */
