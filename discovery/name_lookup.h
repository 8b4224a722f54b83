/*
 * name_lookup - follows the addresses of a DNS name on its own thread.
 *
 *     thread:  getaddrinfo -> name_set -> on_change, when it is another set; then waits
 *              interval_ns, or until name_lookup_hurry
 *
 * getaddrinfo cannot be interrupted, and may take 30 s and more if no name server answers. A lookup that is
 * stopped meanwhile abandons its thread, which then uses only its own memory and frees it.
 *
 * A name that cannot be resolved is logged, at growing intervals; the addresses that it had stay.
 *
 * Bounds: one thread; address_set.h.
 *
 * Thread: one at a time; on_change runs on the lookup's thread.
 */
#pragma once

#include "base/status.h"

#include <stdint.h>

struct name_lookup;

/* Gets all present addresses, as "host:port"; valid during the call, which must not stop the
 * lookup. */
typedef void (*name_lookup_change)(void *arg, const char *const *addresses, uint32_t n);

struct name_lookup_options {
    const char *host; /* copied */
    uint16_t port;
    uint64_t interval_ns;
    name_lookup_change on_change;
    void *arg;
};

/* NO_MEMORY, NO_THREAD. */
MUST_CHECK enum status name_lookup_start(const struct name_lookup_options *options,
                                         struct name_lookup **lookup_out);
/* Looks up soon, instead of after interval_ns. */
void name_lookup_hurry(struct name_lookup *lookup);
/* Returns soon; after that on_change does not run any more. NULL is fine. */
void name_lookup_stop(struct name_lookup *lookup);
