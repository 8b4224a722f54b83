/*
 * accept_gate - keeps strangers from the port that UCX opens for its TCP transport, and which aborts
 * the process at thirteen bytes that it does not expect.
 *
 * The program's own listen, accept and accept4 stand before the C library's. What a thread makes listen
 * between begin and end is gated: whoever connects there is closed before UCX reads a byte, unless
 *     a worker that was described, and is permitted, has that address, and,
 *     when it is an address of this host, the socket is one of this user's processes.
 * All other sockets are the C library's.
 *
 * What it cannot do: tell processes of one user apart, or one of another host with a permitted address
 * from the worker there.
 *
 * Bounds: GATED_SOCKETS_MAX sockets, beyond them listen fails; PERMITS_MAX workers, the oldest goes.
 * Global state: those two tables, as the symbols are one a process.
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
