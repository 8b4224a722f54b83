/*
 * identity_codec - who a worker is, for Describe: incarnation, geometry, address of its transport.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/status.h"
#include "kvtransfer/transport/transport.h"
#include "process/geometry_codec.h"
#include "proto/kvferry/internal/v1/context_worker.pb-c.h"
#include "rpc/auth/sealed_secret.h"

struct worker_identity {
    char name[128];
    char transport[24];   /* "am-tcp" */
    char ucx_version[24]; /* "1.13.1" */
    uint32_t revision;    /* of the protocol (kvtransfer/revision.h); 0: it does not say */
    struct geometry geometry;
    struct transport_address address; /* with the incarnation */
};

/* Describe's caller is a generation worker, its callee a context worker. */
enum identity_sender { IDENTITY_CALLER, IDENTITY_CALLEE };

/* From whom to whom an identity goes: its secret is sealed for that way, and opens on no other. */
struct identity_way {
    struct cluster_key *key; /* NULL: there is none, and no secret is told or taken */
    enum identity_sender sender;
    uint64_t receiver; /* incarnation */
};

#define SEALED_TRANSPORT_SECRET_BYTES (TRANSPORT_SECRET_BYTES + SEAL_BYTES)

/* A message with what it points to; borrows the identity. */
struct identity_message {
    Kvferry__Internal__V1__WorkerIdentity message;
    struct geometry_message geometry;
    ProtobufCBinaryData hosts[HOST_ADDRESSES_MAX];
    uint8_t secret[SEALED_TRANSPORT_SECRET_BYTES];
};

/* UNSUPPORTED: it has a secret, and there is no key. As sealed_secret_make. */
MUST_CHECK enum status identity_encode(const struct worker_identity *identity,
                                       const struct identity_way *way,
                                       struct identity_message *message_out, struct error *error);
/* INVALID_ARGUMENT with the field: missing, too long, or not what it must be; so is a secret that does
 * not open. message may be NULL. As sealed_secret_open. */
MUST_CHECK enum status identity_decode(const Kvferry__Internal__V1__WorkerIdentity *message,
                                       const struct identity_way *way,
                                       struct worker_identity *identity_out, struct error *error);

/* The pair fits: REVISION_MISMATCH with both numbers, or with the field that a neighbour does not tell,
 * or with both versions of UCX that do not reach each other;
 * GEOMETRY_MISMATCH with the first field that differs and both values, the drivers' names among them.
 * allow_numerics: of who takes KV, numerics_fit; "any" of who gives it, for the other one judges. */
MUST_CHECK enum status identity_match(const struct worker_identity *ours,
                                      const struct worker_identity *theirs,
                                      const char *allow_numerics, struct error *error);
