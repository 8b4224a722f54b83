/*
 * shm_transport - driver shm-read: one host, opt-in. The owner's pool is a memory file without a name; the
 * reader opens it through the owner's descriptor and copies out of it.
 *
 *     pool_key    u32 process id, u32 descriptor of the owner, in the host's order; no transport_address
 *
 * The reader maps nothing. It reads the file with pread, and a piece outside of the file is NOT_HELD, whatever
 * the owner says or does to the file meanwhile. It opens only a memory file of this user with the incarnation
 * in its name.
 *
 * The reader notices neither the death of the owner nor a block that is no longer held: Commit and digests
 * decide whether the bytes count. Any process of the same user can read the pool.
 *
 * progress reads at most about a megabyte a round, so that commands get their turn.
 *
 * Thread: as transport.h.
 */
#pragma once

#include "kvtransfer/transport/local_transport.h"

struct shm_options {
    struct local_options local;
    size_t pool_bytes; /* of a worker that is read from; 0 for one that only reads */
};

/* INVALID_ARGUMENT: a zero bound. UNSUPPORTED: no shared memory of that size here. */
MUST_CHECK enum status shm_transport_open(const struct shm_options *options,
                                          struct transport **transport_out, struct error *error);
/* The pool of pool_bytes. It lives until close. NULL: there is none. */
void *shm_transport_pool(const struct transport *transport);
