/*
 * call_auth - how both ends of an inner call prove that they know the cluster key.
 *
 * The caller's metadata `kvferry-auth`, and what its MAC (HMAC-SHA256 under the first key) covers:
 *
 *     2 CALLEE TIME NONCE DIGEST MAC        kvferry call 2\nMETHOD\nCALLEE\nTIME\nNONCE\nDIGEST\n
 *
 *     CALLEE   16 hexadecimal digits: the life (incarnation) that is called; "-": whichever answers
 *     TIME     milliseconds since 1970, decimal
 *     NONCE    32 hexadecimal digits, drawn for the call
 *     METHOD   "/package.Service/Method"
 *     DIGEST   SHA-256 of the one message of the call, as it is sent: 64 hexadecimal digits. It is told, too, so that
 *              a call is judged by its headers, before a byte of its message is waited for
 *
 * The answer's metadata `kvferry-proof`, under the key that the caller used:
 *
 *     1 LIFE MAC                            kvferry reply 1\nKIND\nMAC OF THE CALL\nLIFE\nDIGEST\n
 *
 *     KIND     "unary" or "error" with the digest of the message or of grpc-status-details-bin; "stream"
 *              with that of nothing: what follows on the stream is not covered
 *     LIFE     the incarnation that answers
 *
 * Other metadata of a call (x-request-id, traceparent) is not covered: it names a request in logs and traces,
 * and nothing else goes by it.
 *
 * All hexadecimal digits are small. What the proof means: the other end knows the key, so it is a process of
 * the cluster. It says nothing of its role.
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

#define CALL_SKEW_S    30u /* that two clocks may differ by, and the age of a call */
#define CALL_AUTH_KEY  "kvferry-auth"
#define CALL_PROOF_KEY "kvferry-proof"
#define CALL_TEXT_MAX  224u /* of either's value, NUL included */
#define CALL_ANY_LIFE  0u   /* of no process */
#define CALL_NONCES_USED                                                                           \
    262144u /* a process's nonces_max unless told otherwise: 8,700 calls a second */

/* What a MAC covers beside itself. */
struct call_terms {
    const char *method;
    uint64_t callee; /* CALL_ANY_LIFE: whichever answers */
    struct sha256 digest;
};

/* What both ends keep of a call until its reply; wiped by its owner. */
struct call_bond {
    uint8_t key[CLUSTER_KEY_BYTES];
    struct sha256 mac;
    struct sha256 digest; /* of the message that the call is for */
};

enum call_answer { CALL_ANSWER_UNARY, CALL_ANSWER_STREAM, CALL_ANSWER_ERROR };

void call_digest(const void *bytes, size_t n_bytes, struct sha256 *digest_out);
void call_bond_wipe(struct call_bond *bond);

/* ---- who calls ---- */

/* now_ms: as clock_unix_ms. IO_FAILED: the kernel has no random bits. */
MUST_CHECK enum status call_auth_sign(struct cluster_key *key, const struct call_terms *terms,
                                      uint64_t now_ms, struct call_bond *bond_out,
                                      char text_out[CALL_TEXT_MAX]);
/* False: the text is no proof of that answer to that call. digest NULL: of a stream. */
bool call_proof_check(const struct call_bond *bond, enum call_answer answer,
                      const struct sha256 *digest, const char *text, size_t bytes,
                      uint64_t *life_out);

/* ---- who answers ---- */

enum call_refusal {
    CALL_REFUSED_UNPROVEN, /* no metadata, not of this form, or a MAC under no key of ours */
    CALL_REFUSED_TIME,     /* proven, as the rest, but made too long ago or ahead */
    CALL_REFUSED_REPLAYED,
    CALL_REFUSED_FULL,
    CALL_REFUSED_LIFE, /* it is meant for another life */
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

/* Of a call whose headers have come. takes_any_life: the method may be called by who does not know this life yet.
 *
 * UNAUTHENTICATED, QUEUE_FULL (of nonces): bond_out is not set, and the caller gets no proof.
 * STALE_PEER: it is, and the caller may be told with a proof.
 * The sentence of UNAUTHENTICATED tells who knows no key nothing; refusal_out tells all. */
MUST_CHECK enum status call_auth_check(struct call_auth *auth, const char *method,
                                       bool takes_any_life, const char *text, size_t bytes,
                                       struct call_bond *bond_out, enum call_refusal *refusal_out,
                                       struct error *error);
/* Whether the message that has come for it is the one that was proven; UNAUTHENTICATED, counted as unproven. */
MUST_CHECK enum status call_auth_check_message(struct call_auth *auth, const struct call_bond *bond,
                                               const struct sha256 *digest, struct error *error);
void call_proof_make(const struct call_auth *auth, const struct call_bond *bond,
                     enum call_answer answer, const struct sha256 *digest,
                     char text_out[CALL_TEXT_MAX]);

/* So far. Any thread. */
uint64_t call_auth_refused(const struct call_auth *auth, enum call_refusal refusal);
const char *call_refusal_name(enum call_refusal refusal); /* "unproven" */
