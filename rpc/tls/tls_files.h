/*
 * tls_files - certificate, key and CA of one side: read at start, and again when one of them changes.
 *
 * A changed set is taken as a whole or not at all: while the files do not fit each other (a certificate
 * written before its key), or cannot be read, what was read last stays in force, and the log says so.
 * Connections that are open keep what they began with.
 *
 * Thread: any, but look: one at a time.
 */
#pragma once

#include "base/status.h"
#include "rpc/tls/tls_uris.h"

#include <stdbool.h>
#include <stdint.h>

struct tls_files;
struct ssl_ctx_st;
struct ssl_st;

/* Before any use of TLS: what exit() would free of OpenSSL stays, as a thread of gRPC that is late to end may
 * still hold it. */
void tls_process_init(void);

struct tls_files_options {
    const char *certificate; /* PEM, the holder's first, then those that lead to its CA */
    const char *key;         /* PEM, without a password */
    const char *ca; /* PEM: who connects must show a certificate of theirs; "": needs none */
    const char *certificate_row, *key_row, *ca_row; /* their names in the configuration */
};

/* What a connection speaks under TLS. */
enum tls_protocol { TLS_H2, TLS_HTTP_1_1 };

/* Strings are copied, row names are borrowed for good. INVALID_ARGUMENT, IO_FAILED, CORRUPT: the sentence has
 * row, path and why. */
MUST_CHECK enum status tls_files_open(const struct tls_files_options *options, struct error *error,
                                      struct tls_files **files_out);
void tls_files_close(struct tls_files *files); /* NULL is fine */

enum tls_look { TLS_LOOK_SAME, TLS_LOOK_NEW, TLS_LOOK_FAILED };
/* Reads them again if one is another than at the last look. */
enum tls_look tls_files_look(struct tls_files *files);

bool tls_files_asks_client(const struct tls_files *files); /* has a CA */
/* The caller's, to free. */
struct ssl_ctx_st *tls_files_context(struct tls_files *files);
/* Of a connection made from it, before its handshake; until then it speaks h2. A client that offers others alone is refused. */
void tls_files_set_protocol(struct ssl_st *ssl, enum tls_protocol protocol);
/* Unix time at which the own certificate ends to be valid. */
int64_t tls_files_expiry(struct tls_files *files);

/* Of the own certificate. */
void tls_files_uris(struct tls_files *files, struct tls_uris *uris_out);
