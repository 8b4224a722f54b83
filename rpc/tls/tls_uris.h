/*
 * tls_uris - the URI names of a certificate.
 *
 * Thread: any (plain data).
 */
#pragma once

#include <stdint.h>

#define TLS_URIS_MAX 8
struct tls_uris {
    uint32_t n;
    char uris[TLS_URIS_MAX][256];
};
/* As tls_identity_only; the result points into uris. */
const char *tls_uris_identity(const struct tls_uris *uris);
