/*
 * ipc_lease - a connection over a Unix socket between the owner of a pool and each reader that has the pool mapped.
 *
 *     reader -> owner   connects, before it maps anything
 *     owner -> reader   its incarnation, a u64 in the host's byte order: the owner will wait for this reader before it frees the pool
 *     owner -> reader   end of stream: unmap the pool. Or the owner is dead.
 *     reader -> owner   end of stream: the reader has unmapped the pool. Or it is dead.
 *
 * The kernel closes the connection when either process ends, for any reason. Both processes belong to one user on one host and
 * share /dev/shm. The socket is in a locked folder of the owner. Nothing else crosses this connection, and it gives no access:
 * Describe tells the handle that maps a pool.
 *
 * Bound: readers_max readers at a time; more are refused. Thread: the transport's.
 */
#pragma once

#include "kvtransfer/transport/shm_folder.h"
#include "kvtransfer/transport/transport.h"

#include <poll.h>

/* Where readers come. */
struct ipc_door {
    struct shm_folder folder;
    char path[64];
    int listener; /* -1: closed */
    uint64_t incarnation;
    int *readers; /* [n_readers] */
    uint32_t n_readers, readers_max;
    uint64_t deaf_until_ns; /* there was no descriptor for who came */
};

MUST_CHECK enum status ipc_door_open(struct ipc_door *door, uint64_t incarnation,
                                     uint32_t readers_max, struct error *error);
/* Tells all readers to unmap the pool, and waits for them for at most limit_ns. False: some have not done so. A zeroed door is fine. */
bool ipc_door_close(struct ipc_door *door, uint64_t limit_ns);
/* Accepts new readers and forgets those that have unmapped the pool. Returns the work done. */
unsigned ipc_door_progress(struct ipc_door *door, uint64_t now_ns);
/* Fills in what to poll, at most 1 + readers_max. Returns how many. */
uint32_t ipc_door_fds(const struct ipc_door *door, uint64_t now_ns, struct pollfd *fds_out);

/* Connects to the owner at that address. -1: there is no owner, or it belongs to another user. */
int ipc_lease_ask(const struct transport_address *address);
/* Reads what the owner has said so far. OK: it will wait for this reader. NOT_READY: nothing yet. PEER_LOST: the reader must unmap,
 * or the owner is another incarnation. */
MUST_CHECK enum status ipc_lease_hear(int fd, uint64_t incarnation);
/* Asks again after OK. PEER_LOST: the reader must unmap. */
MUST_CHECK enum status ipc_lease_check(int fd);
