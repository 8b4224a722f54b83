/*
 * ipc_lease - what stands between the owner of a pool and those who have it mapped: a connection each, over a Unix socket.
 *
 *     reader -> owner   connects, before it maps anything
 *     owner -> reader   its incarnation, a u64 in the host's order: it waits for this reader before it frees its pool
 *     owner -> reader   the end: let go. Or it is dead.
 *     reader -> owner   the end: it has nothing mapped any more. Or it is dead.
 *
 * The kernel ends it with either process, whatever ended that. Both are of one user on one host, with one /dev/shm; the
 * socket is in a locked folder of the owner's. Nothing else crosses here, and nobody is let in by it: what a pool is mapped by
 * is told in Describe.
 *
 * Bounds: so many readers at a time, more are turned away. Thread: the transport's.
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
/* Tells all to let go and waits until they have, for limit_ns at most. False: some have not. A zeroed one is fine. */
bool ipc_door_close(struct ipc_door *door, uint64_t limit_ns);
/* Lets in who waits, forgets who has let go. Returns the work done. */
unsigned ipc_door_progress(struct ipc_door *door, uint64_t now_ns);
/* What to poll, at most 1 + readers_max; returns how many. */
uint32_t ipc_door_fds(const struct ipc_door *door, uint64_t now_ns, struct pollfd *fds_out);

/* A connection to the owner of that address; -1: there is none, or it is not this user's. */
int ipc_lease_ask(const struct transport_address *address);
/* What the owner has said by now. OK: it waits for this reader. NOT_READY: nothing yet. PEER_LOST: let go, or it was never
 * that life's. */
MUST_CHECK enum status ipc_lease_hear(int fd, uint64_t incarnation);
/* The owner has waited for this reader since it heard so. PEER_LOST: let go. */
MUST_CHECK enum status ipc_lease_check(int fd);
