/*
 * ucx_transport - driver am-tcp: over UCX and TCP. The reader sends a pull, the owner answers each piece
 * with one eager active message (pull_wire.h); UCX never holds a pointer into the reader's pool. Reports
 * lost peers.
 *
 * Worker addresses travel in Describe; nothing listens but UCX's own data port.
 *
 * Process state: ucx_process_init changes UCX's log handler and the signals UCX took at load.
 * No fork after the first open.
 *
 * Thread: one at a time; open and close may run on another than progress if nothing else runs then.
 */
#pragma once

#include "kvtransfer/transport/transport.h"

struct ucx_options {
    uint64_t incarnation;
    const char *net_devices; /* "eth0", "lo"; NULL or "": all */
    const char *port_range;  /* "20000-20009"; NULL or "": any */
    uint32_t peers_max;      /* connected or admitted, closing ones included */
    uint32_t gets_max;       /* pieces asked for and not arrived, all peers */
    uint32_t reads_max;      /* pieces asked for and not sent, all peers */
    uint32_t pieces_max;     /* of these, of one reader, as its Describe tells it; 0: all */
};

/* First thing in main, before threads: gives back the signals that UCX takes when it is loaded
 * (SEGV, BUS, FPE, ILL, HUP) and sends UCX's log lines to ours, at debug unless fatal. */
void ucx_process_init(void);

/* Refuses what ucx_transport_open would of the devices and the range of ports; opens nothing. */
MUST_CHECK enum status ucx_options_check(const struct ucx_options *options, struct error *error);

/* INVALID_ARGUMENT: a zero bound, no such device. UNSUPPORTED: the library is not the one of the headers. */
MUST_CHECK enum status ucx_transport_open(const struct ucx_options *options,
                                          struct transport **transport_out, struct error *error);

const char *ucx_version(void); /* of the loaded library, "1.13.1" */
