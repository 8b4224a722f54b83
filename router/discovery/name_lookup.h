/*
 * name_lookup - watches which addresses a name has, on a thread of its own.
 *
 *     thread:  getaddrinfo -> name_set -> on_change, when it is another set; then waits
 *              interval_ns, or until somebody is in a hurry
 *
 * getaddrinfo may take as long as the machine's resolver likes (30 s and more when no name server answers),
 * and cannot be interrupted: a lookup that is stopped meanwhile leaves its thread to itself. It then touches
 * nothing but its own memory, which it frees.
 *
 * A name that cannot be resolved is logged, at growing intervals; the addresses that it had stay.
 *
 * Bounds: one thread; address_set.h.
 *
 * Thread: one at a time; on_change is called on the lookup's own.
 */
#pragma once

#include "base/status.h"

#include <stdint.h>

struct name_lookup;

/* All that there are now, as "host:port"; good during the call, which must not stop the lookup. */
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
/* Asks soon, instead of after interval_ns. */
void name_lookup_hurry(struct name_lookup *lookup);
/* No on_change runs, or will, when this returns, which is soon. NULL is fine. */
void name_lookup_stop(struct name_lookup *lookup);
