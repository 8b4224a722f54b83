/*
 * tls_files - the certificate, key and CA of a port: read at start, and again when one of them changes.
 *
 * A changed set is used as a whole or not at all: while the files do not match (a certificate was
 * written before its key), or cannot be read, the last good set stays in use, and the log says so. Open
 * connections keep the set that they began with.
 *
 * Thread: any; tls_files_look: one at a time.
 */
#pragma once

#include "base/status.h"
#include "rpc/tls/tls_uris.h"

#include <stdbool.h>
#include <stdint.h>

struct tls_files;
struct ssl_ctx_st;
struct ssl_st;

/* Call it before any use of TLS: exit() then does not free OpenSSL's memory, which a late thread of gRPC may
 * still use. */
void tls_process_init(void);

struct tls_files_options {
    const char *certificate; /* PEM, the own certificate first, then the chain to its CA */
    const char *key;         /* PEM, without a password */
    const char *ca; /* PEM: clients must show a certificate of one of these CAs; "": no need */
    const char *certificate_row, *key_row, *ca_row; /* their names in the configuration */
};

/* What a connection speaks under TLS. */
enum tls_protocol { TLS_H2, TLS_HTTP_1_1 };

/* Strings are copied; the names of rows are borrowed for good. INVALID_ARGUMENT, IO_FAILED, CORRUPT: the
 * sentence has row, path and reason. */
MUST_CHECK enum status tls_files_open(const struct tls_files_options *options, struct error *error,
                                      struct tls_files **files_out);
void tls_files_close(struct tls_files *files); /* NULL is fine */

enum tls_look { TLS_LOOK_SAME, TLS_LOOK_NEW, TLS_LOOK_FAILED };
/* Reads the files again if one of them has changed since the last look. */
enum tls_look tls_files_look(struct tls_files *files);

bool tls_files_asks_client(const struct tls_files *files); /* has a CA */
/* The caller frees the result. */
struct ssl_ctx_st *tls_files_context(struct tls_files *files);
/* Of a connection made from it, before its handshake; until then it speaks h2. A client that offers others alone is refused. */
void tls_files_set_protocol(struct ssl_st *ssl, enum tls_protocol protocol);
/* The Unix time at which the own certificate expires. */
int64_t tls_files_expiry(struct tls_files *files);

/* The URIs of the own certificate. */
void tls_files_uris(struct tls_files *files, struct tls_uris *uris_out);
