/*
 * sealed_secret - encrypts a secret for another process of the cluster, for a network that others may
 * read: AES-256-GCM under a key derived from the cluster key.
 *
 *     NONCE (12, random)   the secret, encrypted   TAG (16)
 *
 *     key    HMAC-SHA256 under the cluster key of "kvferry seal 1\n", which no text of call_auth.h begins with
 *     bound  "FIELD\nROLE\nSENDER\nRECEIVER\n": incarnations as 16 hexadecimal digits; all must match
 *
 * Of two keys the first encrypts and both decrypt, as with signatures.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/status.h"
#include "rpc/auth/cluster_key.h"

#include <stddef.h>
#include <stdint.h>

#define SEAL_NONCE_BYTES 12u
#define SEAL_TAG_BYTES   16u
#define SEAL_BYTES       (SEAL_NONCE_BYTES + SEAL_TAG_BYTES) /* that encryption adds */

/* The sender of the secret and its receiver. */
struct seal_terms {
    const char *field; /* "transport_secret" */
    const char *role;  /* of the sender: "context" */
    uint64_t sender, receiver;
};

/* sealed_out: bytes + SEAL_BYTES. IO_FAILED: the kernel gives no random bits, or OpenSSL refuses. */
MUST_CHECK enum status sealed_secret_make(struct cluster_key *key, const struct seal_terms *terms,
                                          const uint8_t *secret, size_t bytes, uint8_t *sealed_out);
/* secret_out: bytes - SEAL_BYTES; the owner wipes it, and after a failure it is empty.
 * UNAUTHENTICATED: encrypted under another key or for another receiver, or changed in transit.
 * IO_FAILED. */
MUST_CHECK enum status sealed_secret_open(struct cluster_key *key, const struct seal_terms *terms,
                                          const uint8_t *sealed, size_t bytes, uint8_t *secret_out);
