/*
 * stream_tls - TLS 1.3 over a connected socket, with a key that both sides have (an external PSK). It uses
 * no certificates, no tickets and no early data. An X25519 exchange keeps recorded traffic secret when the
 * key becomes known later.
 *
 * The key is derived from the secrets of both incarnations (HKDF-SHA256). It authenticates reader and owner
 * to each other, also when other readers know the owner's secret.
 *
 * SIGPIPE is never raised. Records are collected, and flush sends them.
 * Thread: one for each context.
 */
#pragma once

#include "base/status.h"
#include "kvtransfer/transport/transport.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define TLS_KEY_BYTES 32

struct tls_context;
struct tls_session;

/* BUG: the library cannot. */
MUST_CHECK enum status tls_key_derive(const uint8_t owner_secret[TRANSPORT_SECRET_BYTES],
                                      const uint8_t reader_secret[TRANSPORT_SECRET_BYTES],
                                      uint64_t reader_incarnation, uint8_t key_out[TLS_KEY_BYTES]);

/* Finds the key of the reader that claims that incarnation. arg is that of tls_session_accept. False: no
 * such reader is known. */
typedef bool (*tls_find_key)(void *arg, uint64_t reader_incarnation,
                             uint8_t key_out[TLS_KEY_BYTES]);

MUST_CHECK enum status tls_context_create(tls_find_key find, struct tls_context **context_out,
                                          struct error *error);
/* After its sessions. NULL is fine. */
void tls_context_destroy(struct tls_context *context);

/* The descriptor stays the caller's. NO_MEMORY. */
MUST_CHECK enum status tls_session_accept(struct tls_context *context, int fd, void *arg,
                                          struct tls_session **session_out);
MUST_CHECK enum status tls_session_connect(struct tls_context *context, int fd,
                                           uint64_t reader_incarnation,
                                           const uint8_t key[TLS_KEY_BYTES],
                                           struct tls_session **session_out);
/* NULL is fine. */
void tls_session_destroy(struct tls_session *session);

/* The result of a read, a write or a handshake. Above 0: done, or the number of bytes. */
enum { TLS_LATER = 0, TLS_LOST = -1 };

int tls_session_handshake(struct tls_session *session);
/* Of the reader, as proved by the handshake. */
uint64_t tls_session_reader(const struct tls_session *session);
ssize_t tls_session_read(struct tls_session *session, void *to, size_t bytes);
/* After TLS_LATER the same bytes must be offered again, at whatever address. */
ssize_t tls_session_write(struct tls_session *session, const void *from, size_t bytes);
/* Sends the collected records. TLS_LATER: the socket takes no more. */
int tls_session_flush(struct tls_session *session);
