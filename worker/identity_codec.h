/*
 * identity_codec - who a worker is, for Describe: incarnation, geometry, address of its transport.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/status.h"
#include "kvtransfer/transport.h"
#include "process/geometry_codec.h"
#include "proto/kvferry/internal/v1/context_worker.pb-c.h"

struct worker_identity {
    char name[128];
    char transport[24];   /* "am-tcp" */
    char ucx_version[24]; /* "1.13.1" */
    struct geometry geometry;
    struct transport_address address; /* with the incarnation */
};

/* A message with what it points to; borrows the identity. */
struct identity_message {
    Kvferry__Internal__V1__WorkerIdentity message;
    struct geometry_message geometry;
};

void identity_encode(const struct worker_identity *identity, struct identity_message *message_out);
/* INVALID_ARGUMENT with the field: missing, too long, or not what it must be. message may be NULL. */
MUST_CHECK enum status identity_decode(const Kvferry__Internal__V1__WorkerIdentity *message,
                                       struct worker_identity *identity_out, struct error *error);

/* The pair fits: GEOMETRY_MISMATCH with the first field that differs and both values, the drivers'
 * names among them. */
MUST_CHECK enum status identity_match(const struct worker_identity *ours,
                                      const struct worker_identity *theirs, struct error *error);
