/*
 * admission - admits calls of the public port by their bearer token, or by the tenant in a verified certificate
 * (kvferry://CLUSTER/tenant/NAME). It is the server's doorkeeper over tenants.h.
 *
 * Health needs no token. Failures are logged with the peer, at most one line a second with their number. Refused
 * requests of a tenant also have an access line each; those of unknown callers have none, because anyone could fill
 * the log.
 *
 * Thread: admission_open and _close on main, the others any.
 */
#pragma once

#include "router/admission/tenants.h"
#include "rpc/server/server.h"

#include <pthread.h>

struct admission {
    struct tenants *tenants; /* NULL: all calls are admitted, and none has a pass */
    struct rpc_doorkeeper doorkeeper;
    const char *cluster_name; /* whose certificates name tenants; borrowed */
    pthread_mutex_t mutex;    /* what follows */
    uint64_t logged_ns;       /* the last failure */
    uint32_t n_unlogged;
};

/* tokens_file "": all calls are admitted. salt_key_file "": a key is drawn. The admission must not be moved. */
MUST_CHECK enum status admission_open(struct admission *admission, const char *tokens_file,
                                      const char *salt_key_file, struct error *error);
/* No call may have a pass. A zeroed one is fine. */
void admission_close(struct admission *admission);

/* One who wants in, over any protocol. */
struct admission_call {
    const char *
        method; /* as the log names it: "/kvferry.v1.GenerationService/Generate", "POST /v1/completions" */
    enum tenant_method kind;
    const char *token; /* of a bearer; NULL: none */
    size_t token_bytes;
    const char *identity;   /* of a verified certificate, "": none */
    struct log_about about; /* who calls, for the log */
};

/* A pass, or why not: UNAUTHENTICATED, NOT_ALLOWED, QUOTA, NO_MEMORY. *pass_out NULL with OK: there are no tenants. */
MUST_CHECK enum status admission_enter(struct admission *admission,
                                       const struct admission_call *call,
                                       struct tenant_pass **pass_out, struct rpc_error *error);

/* As the client is told. */
void admission_refuse(enum status status, const struct tenant_refusal *refusal,
                      struct rpc_error *error);

/* Checks the files as admission_open does. */
MUST_CHECK enum status admission_check(const char *tokens_file, const char *salt_key_file,
                                       struct error *error);
