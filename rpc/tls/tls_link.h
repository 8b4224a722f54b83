/*
 * tls_link - TLS of one accepted connection, between bytes: what the client sends goes in by feed, what it is
 * sent comes out by output; no sockets.
 *
 *     feed -> handshake (until TLS_DONE) -> output to the client
 *     feed -> read;   write -> output to the client
 *
 * Thread: one at a time; handshake may run on another than the rest.
 */
#pragma once

#include "base/status.h"
#include "rpc/tls/tls_files.h"
#include "rpc/tls/tls_uris.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TLS_PLAIN_MAX 16384 /* of one record */

struct tls_link;

/* With the files as they are now. TLS_H2: the client must offer it; TLS_HTTP_1_1: it may also offer nothing. NO_MEMORY. */
MUST_CHECK enum status tls_link_create(struct tls_files *files, enum tls_protocol protocol,
                                       struct tls_link **link_out);
void tls_link_destroy(struct tls_link *link); /* NULL is fine */

/* Copied. False: no memory, or more than a handshake ever needs while it has not ended. */
bool tls_link_feed(struct tls_link *link, const uint8_t *bytes, size_t n);

enum tls_progress { TLS_MORE, TLS_DONE, TLS_FAILED };
/* TLS_MORE: wants bytes. After each there may be output. */
enum tls_progress tls_link_handshake(struct tls_link *link);
/* TLS_MORE: *n_out bytes, and that was all that had come; TLS_DONE: there may be more; TLS_FAILED: the
 * client has ended it, or the received bytes are not TLS. n_max: TLS_PLAIN_MAX at least. */
enum tls_progress tls_link_read(struct tls_link *link, uint8_t *bytes_out, size_t n_max,
                                size_t *n_out);
bool tls_link_write(struct tls_link *link, const uint8_t *bytes, size_t n); /* false: no memory */
void tls_link_end(struct tls_link *link); /* close_notify; nothing is written after it */

/* Returns how many bytes wait for the client; they are valid until the next call on link. */
size_t tls_link_output(struct tls_link *link, const uint8_t **bytes_out);
void tls_link_sent(struct tls_link *link); /* all of them: forgets them */

/* After TLS_DONE: the URI names of the client's verified certificate; none without one. */
void tls_link_uris(const struct tls_link *link, struct tls_uris *uris_out);
/* "certificate has expired": why it failed, in OpenSSL's words; "": the client has ended it in order. */
const char *tls_link_failure(const struct tls_link *link);
