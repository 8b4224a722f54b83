/*
 * ipc_transport - driver cuda-ipc: one host, one user, opt-in. The reader maps the owner's pool, which is memory of a GPU, and
 * copies out of it on its own device's copy queue: GPU to GPU, or within one.
 *
 *     transport_address   path of the owner's socket (ipc_lease.h)
 *     pool_key            device_handle of the pool
 *
 *     LEASING --the owner waits for us--> MAPPED --let go, lost or closed--> LEAVING --copies done, unmapped--> GONE
 *
 * A reader maps the whole allocation, once for each incarnation of an owner. The reader's own device driver says how long the
 * mapping is, and nothing outside of it is copied, whatever the owner says: NOT_HELD. A pool that cannot be mapped (a handle
 * that is not valid, a GPU that this one cannot reach) fails the transfer with PEER_LOST; the log says why.
 *
 * The driver is direct (transport.h): the targets of pieces are memory of the device. A get is outstanding until the host has
 * seen its copy done, and its block is fenced until then. A reader unmaps before the owner frees the pool: the owner's close
 * tells all readers to unmap, and waits IPC_LET_GO_NS for them. The lease of an owner that dies ends at once. Bytes copied
 * between the death and its notice may be wrong; Commit and digests decide whether they count.
 *
 * Whoever has the handle can read and write the whole pool.
 *
 * Thread: as transport.h, which is the owner of the device's copy queue.
 */
#pragma once

#include "kvtransfer/transport/local_transport.h"

#define IPC_LET_GO_NS 2000000000ull

struct ipc_options {
    struct local_options local; /* peers_max is of readers of the pool, too */
    struct device *device;      /* borrowed */
    bool is_read_from;          /* ipc_transport_lend follows */
};

/* INVALID_ARGUMENT: a zero bound. UNSUPPORTED: the device's memory cannot be mapped by others, or there is no /dev/shm. */
MUST_CHECK enum status ipc_transport_open(const struct ipc_options *options,
                                          struct transport **transport_out, struct error *error);
/* Lets others read pool. It is called once, before the address is told. The pool is freed after close. UNSUPPORTED, DEVICE_LOST. */
MUST_CHECK enum status ipc_transport_lend(struct transport *transport,
                                          const struct device_memory *pool, struct error *error);
