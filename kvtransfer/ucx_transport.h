/*
 * ucx_transport - the real transport, over UCX.
 *
 *     am-tcp     the reader sends a pull, the owner answers each piece with one eager active message
 *                (ucx_wire.h); UCX never holds a pointer into the reader's pool. Reports lost peers.
 *     shm-read   one host, opt-in: reads the owner's pool through POSIX shared memory. Cannot see a
 *                death, nor a block that is no longer held: only Commit and digests decide whether
 *                the bytes count. Any process of the same user can read that pool.
 *
 * Worker addresses and pool keys travel in Describe; nothing listens but UCX's own data port.
 *
 * Process state: ucx_process_init changes UCX's log handler and the signals UCX took at load.
 * No fork after the first open.
 *
 * Thread: one at a time; open and close may run on another than progress if nothing else runs then.
 */
#pragma once

#include "kvtransfer/transport.h"

#include <stddef.h>

enum ucx_driver { UCX_AM_TCP, UCX_SHM_READ };

const char *ucx_driver_name(enum ucx_driver driver); /* "am-tcp" */

struct ucx_options {
    enum ucx_driver driver;
    uint64_t incarnation;
    const char *net_devices; /* "eth0", "lo"; NULL or "": all */
    const char *port_range;  /* "20000-20009"; NULL or "": any */
    uint32_t peers_max;      /* connected or admitted, closing ones included */
    uint32_t gets_max;       /* pieces asked for and not arrived, all peers */
    uint32_t reads_max;      /* pieces asked for and not sent, all peers */
    uint32_t pieces_max;     /* of these, of one reader, as its Describe tells it; 0: all */
    /* shm-read: bytes of shared memory to make for the pool of a worker that is read from; 0 for
     * one that only reads. am-tcp ignores it: any memory will do. */
    size_t pool_bytes;
};

/* First thing in main, before threads: gives back the signals that UCX takes when it is loaded
 * (SEGV, BUS, FPE, ILL, HUP) and sends UCX's log lines to ours, at debug unless fatal. */
void ucx_process_init(void);

/* Refuses what ucx_transport_open would of the devices and the range of ports; opens nothing. */
MUST_CHECK enum status ucx_options_check(const struct ucx_options *options, struct error *error);

/* INVALID_ARGUMENT: a zero bound, no such device. UNSUPPORTED: no shared memory here, or the library
 * is not the one of the headers. */
MUST_CHECK enum status ucx_transport_open(const struct ucx_options *options,
                                          struct transport **transport_out, struct error *error);

/* The pool_bytes of shm-read, for block_pool_create_in; lives until close. NULL: use any memory. */
void *ucx_transport_pool(const struct transport *transport);

const char *ucx_version(void); /* of the loaded library, "1.13.1" */
