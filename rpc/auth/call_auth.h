/*
 * call_auth - caller and callee of a call between processes prove that they know the cluster key.
 *
 * The caller's metadata `kvferry-auth`, and what its MAC (HMAC-SHA256 under the first key) covers:
 *
 *     2 CALLEE TIME NONCE DIGEST MAC        kvferry call 2\nMETHOD\nCALLEE\nTIME\nNONCE\nDIGEST\n
 *
 *     CALLEE   16 hexadecimal digits: the incarnation that is called; "-": any
 *     TIME     milliseconds since 1970, decimal
 *     NONCE    32 hexadecimal digits, random, new for each call
 *     METHOD   "/package.Service/Method"
 *     DIGEST   SHA-256 of the one message of the call, as it is sent: 64 hexadecimal digits. It is in the metadata so that
 *              a call is checked by its headers, before its message is received
 *
 * The answer's metadata `kvferry-proof`, under the key that the caller used:
 *
 *     1 LIFE MAC                            kvferry reply 1\nKIND\nMAC OF THE CALL\nLIFE\nDIGEST\n
 *
 *     KIND     "unary" or "error" with the digest of the message or of grpc-status-details-bin; "stream"
 *              with the digest of no bytes: the messages of the stream are not covered
 *     LIFE     the incarnation of the callee
 *
 * Other metadata of a call (x-request-id, traceparent) is not covered: it names a request in logs and traces, and is
 * used for nothing else.
 *
 * All hexadecimal digits are lower case. The proof means that the other end knows the key, so it is a process of the
 * cluster. It says nothing about its role.
 *
 * Thread: any; check under a lock.
 */
#pragma once

#include "base/clock.h"
#include "base/sha256.h"
#include "base/status.h"
#include "rpc/auth/cluster_key.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CALL_SKEW_S      30u /* the largest difference of two clocks, and the largest age of a call */
#define CALL_AUTH_KEY    "kvferry-auth"
#define CALL_PROOF_KEY   "kvferry-proof"
#define CALL_TEXT_MAX    224u    /* of the value of either metadata, NUL included */
#define CALL_ANY_LIFE    0u      /* no process has this incarnation */
#define CALL_NONCES_USED 262144u /* the default of nonces_max: 8,700 calls a second */

/* The fields that a MAC covers. */
struct call_terms {
    const char *method;
    uint64_t callee; /* CALL_ANY_LIFE: any incarnation */
    struct sha256 digest;
};

/* The state that each end keeps from a call to its reply; the owner wipes it. */
struct call_bond {
    uint8_t key[CLUSTER_KEY_BYTES];
    struct sha256 mac;
    struct sha256 digest; /* of the call's message */
};

enum call_answer { CALL_ANSWER_UNARY, CALL_ANSWER_STREAM, CALL_ANSWER_ERROR };

void call_digest(const void *bytes, size_t n_bytes, struct sha256 *digest_out);
void call_bond_wipe(struct call_bond *bond);

/* ---- caller ---- */

/* now_ms: as clock_unix_ms. IO_FAILED: the kernel gives no random bits. */
MUST_CHECK enum status call_auth_sign(struct cluster_key *key, const struct call_terms *terms,
                                      uint64_t now_ms, struct call_bond *bond_out,
                                      char text_out[CALL_TEXT_MAX]);
/* False: the text does not prove this answer to this call. digest NULL: the answer is a stream. */
bool call_proof_check(const struct call_bond *bond, enum call_answer answer,
                      const struct sha256 *digest, const char *text, size_t bytes,
                      uint64_t *life_out);

/* ---- callee ---- */

enum call_refusal {
    CALL_REFUSED_UNPROVEN, /* no metadata, another format, or a MAC under no key of this process */
    CALL_REFUSED_TIME,     /* proven, like those below, but too old or too far in the future */
    CALL_REFUSED_REPLAYED,
    CALL_REFUSED_FULL,
    CALL_REFUSED_LIFE, /* it is for another incarnation */
    CALL_REFUSALS,
};

struct call_auth;

struct call_auth_options {
    struct cluster_key *key;  /* borrowed until destroy */
    uint64_t life;            /* incarnation; not 0 */
    uint32_t nonces_max;      /* 0: CALL_NONCES_USED */
    uint64_t (*now_ms)(void); /* NULL: clock_unix_ms */
};

MUST_CHECK enum status call_auth_create(const struct call_auth_options *options,
                                        struct call_auth **auth_out);
void call_auth_destroy(struct call_auth *auth); /* NULL is fine */

/* Checks a call whose headers have arrived. takes_any_life: callers of the method need not know this incarnation.
 *
 * UNAUTHENTICATED, QUEUE_FULL (of nonces): bond_out is not set, and the caller gets no proof. STALE_PEER:
 * bond_out is set, and the error may carry a proof. The sentence of UNAUTHENTICATED has no details for a caller
 * without a key; refusal_out has the reason. */
MUST_CHECK enum status call_auth_check(struct call_auth *auth, const char *method,
                                       bool takes_any_life, const char *text, size_t bytes,
                                       struct call_bond *bond_out, enum call_refusal *refusal_out,
                                       struct error *error);
/* Checks that the message that arrived is the one that was proven. UNAUTHENTICATED: it is not; counted as
 * unproven. */
MUST_CHECK enum status call_auth_check_message(struct call_auth *auth, const struct call_bond *bond,
                                               const struct sha256 *digest, struct error *error);
void call_proof_make(const struct call_auth *auth, const struct call_bond *bond,
                     enum call_answer answer, const struct sha256 *digest,
                     char text_out[CALL_TEXT_MAX]);

/* Refusals so far. Any thread. */
uint64_t call_auth_refused(const struct call_auth *auth, enum call_refusal refusal);
const char *call_refusal_name(enum call_refusal refusal); /* "unproven" */
