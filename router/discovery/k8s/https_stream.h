/*
 * https_stream - one TLS connection to a server that a given CA vouches for, by name or address.
 *
 * TLS 1.2 or 1.3. The certificate must be signed below one of the CAs given (the system's own do not
 * count) and name the host that was asked for, as a name or as an IP address. No renegotiation, no resumption.
 * A peer that vanishes is noticed by TCP's own probes within KEEPALIVE (30 s); one that is silent by until_ns.
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
    const char *host; /* as the certificate must have it */
    const char *ca;   /* PEM */
    size_t ca_bytes;
    struct host_lookup *lookup; /* of host */
    int stop_fd; /* readable: whoever waits ends with CANCELLED; borrowed until close */
};

/* Connected, the certificate judged. CANCELLED, TIMED_OUT, PEER_LOST; NOT_FOUND: no such host;
 * UNAUTHENTICATED: the certificate will not do; CORRUPT: ca holds no certificate; NO_MEMORY. */
MUST_CHECK enum status https_stream_open(const struct https_stream_options *options,
                                         uint64_t until_ns, struct https_stream **stream_out,
                                         struct error *error);
void https_stream_close(struct https_stream *stream); /* NULL is fine; never waits */

/* All of it. CANCELLED, TIMED_OUT, PEER_LOST. */
MUST_CHECK enum status https_stream_write(struct https_stream *stream, const void *bytes, size_t n,
                                          uint64_t until_ns, struct error *error);
/* n_out: 1 .. n, or 0 at the peer's orderly end. CANCELLED, TIMED_OUT, PEER_LOST: also an end without
 * TLS's own. */
MUST_CHECK enum status https_stream_read(struct https_stream *stream, void *to, size_t n,
                                         uint64_t until_ns, size_t *n_out, struct error *error);
