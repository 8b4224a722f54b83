/* Whatever a certificate has for names: who it says its holder is. */
#include "rpc/tls/tls_certificate.h"
#include "rpc/tls/tls_identity.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_identity(const char *uri, size_t bytes)
{
    struct tls_identity identity;
    if (!tls_identity_read(uri, bytes, "test", &identity))
        return;
    assert((identity.roles != 0) != (identity.tenant[0] != '\0'));
    assert(bytes <= TLS_URI_MAX && strlen(identity.tenant) <= TLS_TENANT_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const unsigned char *at = data;
    struct tls_uris uris;
    read_identity((const char *)data, size);
    X509 *certificate = d2i_X509(NULL, &at, (long)size);
    if (!certificate)
        return 0;
    tls_certificate_uris(certificate, &uris);
    assert(uris.n <= TLS_URIS_MAX);
    for (uint32_t i = 0; i < uris.n; i++)
        read_identity(uris.uris[i], strlen(uris.uris[i]));
    X509_free(certificate);
    return 0;
}
