/*
 * shm_transport - driver shm-read: one host, opt-in. The owner's pool is a memory file without a name; the
 * reader opens it through the owner's descriptor and copies out of it.
 *
 *     pool_key    u32 process id, u32 descriptor of the owner, in the host's order; no transport_address
 *
 * The reader maps nothing: it reads the file (pread), and what is outside of it is NOT_HELD, whatever the
 * owner says of it or does to it meanwhile. It opens nothing but a memory file of this user's that bears
 * the incarnation in its name.
 *
 * It cannot see a death, nor a block that is no longer held: only Commit and digests decide whether the
 * bytes count. Any process of the same user can read that pool.
 *
 * Reads are done in progress, at most about a megabyte a round, before commands have their turn again.
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
/* Of pool_bytes, until close. NULL: there is none. */
void *shm_transport_pool(const struct transport *transport);
