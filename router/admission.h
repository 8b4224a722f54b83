/*
 * admission - admits calls of the public port by their bearer token, or by the tenant in a verified certificate
 * (kvferry://CLUSTER/tenant/NAME). It is the server's doorkeeper over tenants.h.
 *
 * Health needs no token. Failures are logged with the peer, at most one line a second with their number. Refused
 * requests of a tenant also have an access line each; those of unknown callers have none, because anyone could fill
 * the log.
 *
 * Thread: enter on the queue thread, leave and destroy any.
 */
#pragma once

#include "router/tenants.h"
#include "rpc/server/server.h"

struct admission {
    struct tenants *tenants; /* NULL: all calls are admitted, and none has a pass */
    struct rpc_doorkeeper doorkeeper;
    const char *cluster_name; /* whose certificates name tenants; borrowed */
    uint64_t logged_ns;       /* the last failure */
    uint32_t n_unlogged;
};

/* tokens_file "": all calls are admitted. salt_key_file "": a key is drawn. The admission must not be moved. */
MUST_CHECK enum status admission_open(struct admission *admission, const char *tokens_file,
                                      const char *salt_key_file, struct error *error);
/* No call may have a pass. A zeroed one is fine. */
void admission_close(struct admission *admission);

/* Sets error for a refusal, as the client sees it. */
void admission_refuse(enum status status, const struct tenant_refusal *refusal,
                      struct rpc_error *error);

/* Checks the files as admission_open does. */
MUST_CHECK enum status admission_check(const char *tokens_file, const char *salt_key_file,
                                       struct error *error);
