/*
 * ipc_transport - driver cuda-ipc: one host, one user, opt-in. The reader maps the owner's pool, which is memory of a GPU, and
 * copies out of it on its own device's copy queue: GPU to GPU, or within one.
 *
 *     transport_address   path of the owner's socket (ipc_lease.h)
 *     pool_key            device_handle of the pool
 *
 *     LEASING --the owner waits for us--> MAPPED --let go, lost or closed--> LEAVING --copies done, unmapped--> GONE
 *
 * Mapped is whole memory by its base, once a life of an owner. How long it is says this process's own driver, and nothing
 * outside of that is copied, whatever the owner says: NOT_HELD. A pool that cannot be mapped (a handle that leads nowhere,
 * a GPU that this one does not reach) costs the transfer, PEER_LOST, and says why in the log.
 *
 * It is direct (transport.h): the targets of pieces are the device's. A piece is out until the host has seen its copy done, so that
 * its block is fenced so long. A reader unmaps before the owner frees: the owner's close tells all readers to let go, and
 * waits IPC_LET_GO_NS for them. A dead owner's end of the lease says so at once; what is copied after that and before it was
 * heard is for Commit and digests to judge, as all that is read by somebody who does not ask: it need not have been held.
 *
 * Who has the handle can read and write the whole pool.
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
/* Once, before the address is told: pool is what others read. It is freed behind close. UNSUPPORTED, DEVICE_LOST. */
MUST_CHECK enum status ipc_transport_lend(struct transport *transport,
                                          const struct device_memory *pool, struct error *error);
