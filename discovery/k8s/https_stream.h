/*
 * https_stream - one TLS connection to a server with a certificate of a given CA for its name or address.
 *
 * TLS 1.2 or 1.3. The certificate must come from one of the given CAs (the system's CAs do not count) and
 * contain the requested host, as a name or an IP address. No renegotiation, no resumption. TCP keep-alive
 * detects a lost peer within KEEPALIVE (30 s); until_ns detects a silent one.
 *
 * The caller's thread must have SIGPIPE blocked or ignored: OpenSSL writes to the socket itself.
 *
 * Thread: one at a time.
 */
#pragma once

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct host_lookup;
struct https_stream;

struct https_stream_options {
    const char *host; /* must be in the certificate */
    const char *ca;   /* PEM */
    size_t ca_bytes;
    struct host_lookup *lookup; /* of host */
    int stop_fd;                /* readable: waits end with CANCELLED; borrowed until close */
};

/* Connects and checks the certificate. CANCELLED, TIMED_OUT, PEER_LOST; NOT_FOUND: no such host;
 * UNAUTHENTICATED: the certificate is not accepted; CORRUPT: ca holds no certificate; NO_MEMORY. */
MUST_CHECK enum status https_stream_open(const struct https_stream_options *options,
                                         uint64_t until_ns, struct https_stream **stream_out,
                                         struct error *error);
void https_stream_close(struct https_stream *stream); /* NULL is fine; never waits */

/* All of it. CANCELLED, TIMED_OUT, PEER_LOST. */
MUST_CHECK enum status https_stream_write(struct https_stream *stream, const void *bytes, size_t n,
                                          uint64_t until_ns, struct error *error);
/* n_out: 1 .. n, or 0 after TLS's close_notify. CANCELLED, TIMED_OUT, PEER_LOST: also an end without close_notify. */
MUST_CHECK enum status https_stream_read(struct https_stream *stream, void *to, size_t n,
                                         uint64_t until_ns, size_t *n_out, struct error *error);
