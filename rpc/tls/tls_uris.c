#include "rpc/tls/tls_uris.h"

#include "rpc/tls/tls_identity.h"

const char *tls_uris_identity(const struct tls_uris *uris)
{
    const char *list[TLS_URIS_MAX];
    for (uint32_t i = 0; i < uris->n; i++)
        list[i] = uris->uris[i];
    return tls_identity_only(list, uris->n);
}
