/*
 * tls_certificate - the URIs among a certificate's subject alternative names. Includes OpenSSL; for rpc/tls/ only.
 *
 * Thread: any; no state.
 */
#pragma once

#include "rpc/tls/tls_uris.h"

#include <openssl/x509.h>

/* Reads the first TLS_URIS_MAX URIs; one that is too long or has a zero byte is left out. */
void tls_certificate_uris(const X509 *certificate, struct tls_uris *uris_out);
