/*
 * server_tls - the TLS rows of a command that calls a server, and the TLS options that follow.
 *
 * Thread: main.
 */
#pragma once

#include "base/config/config.h"
#include "rpc/client/client.h"

#define SERVER_TLS_ROWS(X)                                                                         \
    X(tls, BOOL, "no", "",                                                                         \
      "connect over TLS; the certificate of the server must have its host name")                   \
    X(tls_ca, STRING, "", "path",                                                                  \
      "CA certificates (PEM) that verify the server; implies --tls; empty: the system's")          \
    X(tls_certificate, STRING, "", "path", "client certificate (PEM); implies --tls")              \
    X(tls_key, STRING, "", "path", "private key (PEM) of tls_certificate")

struct server_tls_options {
    bool tls;
    const char *ca, *certificate, *key;
};

#define SERVER_TLS_OPTIONS(config)                                                                 \
    {                                                                                              \
        .tls = (config)->tls, .ca = (config)->tls_ca, .certificate = (config)->tls_certificate,    \
        .key = (config)->tls_key,                                                                  \
    }

/* *is_on_out false: clear text, and *tls_out is not set. Strings are borrowed. Fails, with the row's name, if
 * files do not match or cannot be read. */
MUST_CHECK enum status server_tls_read(const struct server_tls_options *options,
                                       struct rpc_client_tls *tls_out, bool *is_on_out,
                                       struct error *error);
