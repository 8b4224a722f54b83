#include "rpc/tls/tls_identity.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define SCHEME "kvferry://"

static const char *const ROLES[TLS_N_ROLES] = {
#define X(name, text) text,
    TLS_ROLE_TABLE(X)
#undef X
};

static bool is_name(const char *text, size_t bytes, size_t bytes_max)
{
    static const char LETTERS[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    if (bytes == 0 || bytes > bytes_max)
        return false;
    for (size_t i = 0; i < bytes; i++)
        if (!memchr(LETTERS, text[i], sizeof LETTERS - 1))
            return false;
    return true;
}

bool tls_cluster_name_is_valid(const char *name)
{
    return is_name(name, strlen(name), TLS_CLUSTER_NAME_MAX);
}

/* Skips part if the text begins with it. */
static bool skip(const char **text, size_t *bytes, const char *part)
{
    size_t n = strlen(part);
    if (*bytes < n || memcmp(*text, part, n) != 0)
        return false;
    *text += n;
    *bytes -= n;
    return true;
}

bool tls_identity_read(const char *uri, size_t bytes, const char *cluster,
                       struct tls_identity *identity_out)
{
    *identity_out = (struct tls_identity){0};
    if (bytes > TLS_URI_MAX || !skip(&uri, &bytes, SCHEME) || !skip(&uri, &bytes, cluster))
        return false;
    if (skip(&uri, &bytes, "/tenant/")) {
        if (!is_name(uri, bytes, TLS_TENANT_MAX))
            return false;
        memcpy(identity_out->tenant, uri, bytes);
        return true;
    }
    if (!skip(&uri, &bytes, "/role/"))
        return false;
    for (unsigned role = 0; role < TLS_N_ROLES; role++)
        if (strlen(ROLES[role]) == bytes && memcmp(uri, ROLES[role], bytes) == 0)
            identity_out->roles = 1u << role;
    return identity_out->roles != 0;
}

const char *tls_identity_only(const char *const *uris, size_t n)
{
    const char *only = NULL;
    for (size_t i = 0; i < n; i++) {
        if (strncmp(uris[i], SCHEME, sizeof SCHEME - 1) != 0)
            continue;
        if (only)
            return NULL;
        only = uris[i];
    }
    return only;
}

void tls_roles_format(uint32_t roles, char text_out[TLS_ROLES_TEXT])
{
    assert((roles & ~TLS_ROLES_ALL) == 0);
    size_t n = 0;
    text_out[0] = '\0';
    for (unsigned role = 0; role < TLS_N_ROLES; role++)
        if (roles & 1u << role)
            n += (size_t)snprintf(text_out + n, TLS_ROLES_TEXT - n, "%s%s", n ? " or " : "",
                                  ROLES[role]);
    assert(n < TLS_ROLES_TEXT);
    if (n == 0)
        snprintf(text_out, TLS_ROLES_TEXT, "nobody");
}
