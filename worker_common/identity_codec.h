/*
 * identity_codec - encodes the identity of a worker for Describe: incarnation, geometry, address of
 * its transport.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/status.h"
#include "kvtransfer/transport/transport.h"
#include "process/adapter_codec.h"
#include "process/geometry_codec.h"
#include "proto/kvferry/internal/v1/context_worker.pb-c.h"
#include "rpc/auth/sealed_secret.h"

struct worker_identity {
    char name[128];
    char transport[24];   /* "am-tcp" */
    char ucx_version[24]; /* "1.13.1" */
    uint32_t revision;    /* of the protocol (kvtransfer/revision.h); 0: not reported */
    struct geometry geometry;
    struct transport_address address; /* with the incarnation */
};

/* Describe's caller is a generation worker, its callee a context worker. */
enum identity_sender { IDENTITY_CALLER, IDENTITY_CALLEE };

/* The sender and the receiver of an identity: its secret is encrypted for this pair and direction
 * only. */
struct identity_way {
    struct cluster_key *key; /* NULL: no key, so no secret is sent or accepted */
    enum identity_sender sender;
    uint64_t receiver; /* incarnation */
};

#define SEALED_TRANSPORT_SECRET_BYTES (TRANSPORT_SECRET_BYTES + SEAL_BYTES)

/* A message with the memory that it points to; borrows the identity. */
struct identity_message {
    Kvferry__Internal__V1__WorkerIdentity message;
    struct geometry_message geometry;
    struct adapters_message adapters; /* adapter_set_describe fills them in */
    char adapter_names[ADAPTERS_MAX][ADAPTER_NAME_MAX + 1];
    ProtobufCBinaryData hosts[HOST_ADDRESSES_MAX];
    uint8_t secret[SEALED_TRANSPORT_SECRET_BYTES];
};

/* UNSUPPORTED: it has a secret, but there is no key. Else as sealed_secret_make. */
MUST_CHECK enum status identity_encode(const struct worker_identity *identity,
                                       const struct identity_way *way,
                                       struct identity_message *message_out, struct error *error);
/* INVALID_ARGUMENT with the field: missing, too long, or invalid, or a secret that cannot be
 * decrypted. message may be NULL. Else as sealed_secret_open. */
MUST_CHECK enum status identity_decode(const Kvferry__Internal__V1__WorkerIdentity *message,
                                       const struct identity_way *way,
                                       struct worker_identity *identity_out, struct error *error);

/* What the receiver of KV accepts beside KV like its own. The sender accepts all, because the receiver decides. */
struct identity_allowance {
    const char *numerics; /* numerics_fit */
    bool converts;        /* geometry_match_converting */
};
#define IDENTITY_ALLOWS_ALL (&(struct identity_allowance){"any", true})

/* Checks that the pair is compatible. REVISION_MISMATCH: the sentence has both revisions, or the field
 * that the peer does not report, or both versions of UCX if they are incompatible. GEOMETRY_MISMATCH:
 * it has the first field that differs and both values; the driver is one of the fields. */
MUST_CHECK enum status identity_match(const struct worker_identity *ours,
                                      const struct worker_identity *theirs,
                                      const struct identity_allowance *allowed,
                                      struct error *error);
