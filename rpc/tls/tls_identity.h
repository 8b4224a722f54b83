/*
 * tls_identity - the role or tenant of a certificate's holder, from the URI in its subject alternative
 * names:
 *
 *     kvferry://CLUSTER/role/router        kvferry://CLUSTER/tenant/NAME
 *
 * Host names and addresses do not count here: a process of a cluster is known by its role, wherever it
 * runs.
 *
 * Thread: any; no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TLS_CLUSTER_NAME_MAX 63u  /* bytes */
#define TLS_TENANT_MAX       64u  /* bytes */
#define TLS_URI_MAX          255u /* bytes */

#define TLS_ROLE_TABLE(X)                                                                          \
    X(ROUTER, "router")                                                                            \
    X(CONTEXT, "context")                                                                          \
    X(GENERATION, "generation")                                                                    \
    X(OPERATOR, "operator") /* an administrator: may call AdminService */

enum tls_role {
#define X(name, text) TLS_ROLE_##name,
    TLS_ROLE_TABLE(X)
#undef X
        TLS_N_ROLES
};
#define TLS_ROLE_BIT(role) (1u << TLS_ROLE_##role)
#define TLS_ROLES_ALL      ((1u << TLS_N_ROLES) - 1u)

struct tls_identity {
    uint32_t roles;                  /* one bit; 0: a tenant */
    char tenant[TLS_TENANT_MAX + 1]; /* "": a role */
};

/* Whether name is one or more letters, digits, '.', '_' and '-'. */
bool tls_cluster_name_is_valid(const char *name);

/* False: not an identity of this cluster. */
bool tls_identity_read(const char *uri, size_t bytes, const char *cluster,
                       struct tls_identity *identity_out);

/* The only URI that is an identity of some cluster; NULL: there is none, or there are several, and then none
 * counts. */
const char *tls_identity_only(const char *const *uris, size_t n);

#define TLS_ROLES_TEXT 64
/* "router or generation"; "nobody" for 0. */
void tls_roles_format(uint32_t roles, char text_out[TLS_ROLES_TEXT]);
