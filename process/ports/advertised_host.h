/*
 * advertised_host - the host under which other processes reach the ports of this one: never "every address".
 *
 *     port bound to                    advertised host
 *     a loopback, a unix socket        the same
 *     every address (0.0.0.0, ::)      the given one; else an address of this host that others can use
 *     one address, a name              the given one (for address translation); else the same
 *
 * An address that others can use belongs to an interface that is up, and is neither a loopback nor link-local.
 * Of several, an address of the host's name is chosen, else the first, IPv4 before IPv6.
 *
 * Thread: any; no state. May block in the resolver.
 */
#pragma once

#include "process/ports/address.h"

#define ADVERTISED_HOST_MAX 128 /* bytes, NUL included */

/* given: a host without a port; "": none. INVALID_ARGUMENT: others cannot use it. */
MUST_CHECK enum status advertised_host_check(const char *given, struct error *error);

/* Replaces the host of an address that a port is, or will be, bound to. UNSUPPORTED: it is bound to every address, no
 * host is given, and this host has no address that others can use. */
MUST_CHECK enum status advertised_host_apply(const char *given, struct address *address_inout,
                                             struct error *error);
