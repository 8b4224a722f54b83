/*
 * host_lookup - looks up the addresses of a host without being blocked by a resolver that does not
 * answer.
 *
 * getaddrinfo cannot be interrupted, so it runs on its own thread. If the caller must stop, it
 * abandons this thread, which ends by itself. A numeric address needs no thread. One lookup at a time:
 * an abandoned lookup is awaited before the next one begins.
 *
 * Thread: one at a time.
 */
#pragma once

#include "base/status.h"

#include <stdint.h>

struct addrinfo;
struct host_lookup;

struct host_lookup_options {
    const char *host; /* borrowed until destroy */
    uint16_t port;
};

MUST_CHECK enum status host_lookup_create(const struct host_lookup_options *options,
                                          struct host_lookup **lookup_out);
void host_lookup_destroy(struct host_lookup *lookup); /* NULL is fine; never waits */

/* The caller frees with freeaddrinfo. CANCELLED: stop_fd is readable; TIMED_OUT; NOT_FOUND, NO_THREAD. */
MUST_CHECK enum status host_lookup_run(struct host_lookup *lookup, int stop_fd, uint64_t until_ns,
                                       struct addrinfo **found_out, struct error *error);
