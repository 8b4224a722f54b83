/*
 * sealed_secret - a secret on its way to another process of the cluster, over a wire that others may see:
 * AES-256-GCM under a key made of the cluster key.
 *
 *     NONCE (12, drawn)   the secret, encrypted   TAG (16)
 *
 *     key    HMAC-SHA256 under the cluster key of "kvferry seal 1\n", which begins no text of call_auth.h
 *     bound  "FIELD\nROLE\nSENDER\nRECEIVER\n": lives as 16 hexadecimal digits; it opens under no other
 *
 * Of two keys the first seals, either opens, as they sign and verify.
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
#define SEAL_BYTES       (SEAL_NONCE_BYTES + SEAL_TAG_BYTES) /* that sealing adds */

/* Whose secret it is and who may open it. */
struct seal_terms {
    const char *field; /* "transport_secret" */
    const char *role;  /* of the sender: "context" */
    uint64_t sender, receiver;
};

/* sealed_out: bytes + SEAL_BYTES. IO_FAILED: the kernel has no random bits, or OpenSSL refuses. */
MUST_CHECK enum status sealed_secret_make(struct cluster_key *key, const struct seal_terms *terms,
                                          const uint8_t *secret, size_t bytes, uint8_t *sealed_out);
/* secret_out: bytes - SEAL_BYTES, which its owner wipes; nothing is left there after a failure.
 * UNAUTHENTICATED: sealed under no key of ours, for others, or changed on the way. IO_FAILED. */
MUST_CHECK enum status sealed_secret_open(struct cluster_key *key, const struct seal_terms *terms,
                                          const uint8_t *sealed, size_t bytes, uint8_t *secret_out);
