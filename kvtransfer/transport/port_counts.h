/*
 * port_counts - the connections at a worker's data port, and the reasons why others were refused.
 *
 * unix and tls count all of this. For am-tcp the accept gate counts the connections that it refuses; UCX
 * tells nothing about the others. A connection is proven in the end, or counted as refused once.
 *
 * Thread: the transport's counts; port_counts_read from any.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

enum port_refusal {
    PORT_PROOF,      /* a failed handshake, an identity that is not known, another user's process,
                            or it went before it had proved who it is */
    PORT_PROOF_TIME, /* its time to do so was over */
    PORT_UNPROVEN_LIMIT, /* too many had not done so: it was the oldest */
    PORT_STRANGER,       /* am-tcp: of no described worker's host, or another user's process */
    PORT_RESOURCES,      /* no descriptor or no memory */
    PORT_REFUSALS
};

/* In struct transport. */
struct port_counts {
    _Atomic uint64_t refused[PORT_REFUSALS];
    _Atomic uint32_t n_unproven, n_proven; /* now; of those that arrived */
    _Atomic uint64_t bad_messages;         /* malformed, or of am-tcp from nobody known: dropped */
};

/* Of one moment, or nearly so. */
struct port_figures {
    uint64_t refused[PORT_REFUSALS];
    uint32_t n_unproven, n_proven;
    uint64_t bad_messages;
};

/* The gate's count is of all transports of the process. */
void port_counts_read(const struct port_counts *counts, struct port_figures *figures_out);
