#include "rpc/tls/tls_uris.h"

#include "rpc/tls/tls_identity.h"

#include <assert.h>

const char *tls_uris_identity(const struct tls_uris *uris)
{
    assert(uris->n <= TLS_URIS_MAX);
    const char *list[TLS_URIS_MAX];
    for (uint32_t i = 0; i < uris->n; i++)
        list[i] = uris->uris[i];
    return tls_identity_only(list, uris->n);
}
