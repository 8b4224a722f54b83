/*
 * host_lookup - the addresses of a host, without being held by a resolver that is silent.
 *
 * getaddrinfo cannot be ended, so it runs on a thread of its own, which is left behind when the caller
 * has to go, and ends by itself. An address in numbers needs none. One lookup at a time: what was left
 * behind is waited for again before another begins.
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
