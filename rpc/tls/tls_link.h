/*
 * tls_link - the TLS of one accepted connection, without sockets: feed takes the bytes from the client,
 * output gives the bytes for the client.
 *
 *     feed -> handshake (until TLS_DONE) -> output to the client
 *     feed -> read;   write -> output to the client
 *
 * Thread: one at a time; handshake may run on another thread than the rest.
 */
#pragma once

#include "base/status.h"
#include "rpc/tls/tls_files.h"
#include "rpc/tls/tls_uris.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TLS_PLAIN_MAX 16384 /* plain bytes of one record */

struct tls_link;

/* Uses the present files. TLS_H2: the client must offer it; TLS_HTTP_1_1: it may also offer nothing. NO_MEMORY. */
MUST_CHECK enum status tls_link_create(struct tls_files *files, enum tls_protocol protocol,
                                       struct tls_link **link_out);
void tls_link_destroy(struct tls_link *link); /* NULL is fine */

/* Copies the bytes. False: no memory, or more bytes than a handshake needs, during a handshake. */
bool tls_link_feed(struct tls_link *link, const uint8_t *bytes, size_t n);

enum tls_progress { TLS_MORE, TLS_DONE, TLS_FAILED };
/* TLS_MORE: it needs more bytes. There may be output after each call. */
enum tls_progress tls_link_handshake(struct tls_link *link);
/* TLS_MORE: *n_out bytes, and no more have arrived. TLS_DONE: there may be more. TLS_FAILED: the
 * client has ended the connection, or the received bytes are not TLS. n_max: at least TLS_PLAIN_MAX. */
enum tls_progress tls_link_read(struct tls_link *link, uint8_t *bytes_out, size_t n_max,
                                size_t *n_out);
bool tls_link_write(struct tls_link *link, const uint8_t *bytes, size_t n); /* false: no memory */
void tls_link_end(struct tls_link *link); /* sends close_notify; nothing may be written after it */

/* Returns the number of bytes for the client; they are valid until the next call on link. */
size_t tls_link_output(struct tls_link *link, const uint8_t **bytes_out);
void tls_link_sent(struct tls_link *link); /* the whole output was sent: drops it */

/* After TLS_DONE: the URI names of the client's verified certificate; none if it showed no
 * certificate. */
void tls_link_uris(const struct tls_link *link, struct tls_uris *uris_out);
/* "certificate has expired": why it failed, as OpenSSL says; "": the client ended it properly. */
const char *tls_link_failure(const struct tls_link *link);
