#include "rpc/tls/tls_certificate.h"

#include <openssl/x509v3.h>
#include <string.h>

void tls_certificate_uris(const X509 *certificate, struct tls_uris *uris_out)
{
    uris_out->n = 0;
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    for (int i = 0; names && i < sk_GENERAL_NAME_num(names) && uris_out->n < TLS_URIS_MAX; i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        if (name->type != GEN_URI)
            continue;
        const unsigned char *text = ASN1_STRING_get0_data(name->d.uniformResourceIdentifier);
        int bytes = ASN1_STRING_length(name->d.uniformResourceIdentifier);
        char *to = uris_out->uris[uris_out->n];
        if (bytes < 0 || (size_t)bytes >= sizeof uris_out->uris[0] ||
            memchr(text, 0, (size_t)bytes))
            continue;
        memcpy(to, text, (size_t)bytes);
        to[bytes] = '\0';
        uris_out->n++;
    }
    GENERAL_NAMES_free(names);
}
