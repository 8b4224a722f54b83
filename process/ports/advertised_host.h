/*
 * advertised_host - under which host the ports of this process are told to others: never "every address".
 *
 *     port bound to                    told
 *     a loopback, a unix socket        that
 *     every address (0.0.0.0, ::)      what was given; else an address of this host that others can use
 *     one address, a name              what was given (behind a translation of addresses); else that
 *
 * Such an address is that of an interface which is up, no loopback's and no link's own; where there are several,
 * one that the host's name has, else the first, IPv4 before IPv6.
 *
 * Thread: any; no state. May wait for the machine's resolver.
 */
#pragma once

#include "process/ports/address.h"

#define ADVERTISED_HOST_MAX 128 /* bytes, NUL included */

/* given: a host without a port, "" for none. INVALID_ARGUMENT: it is none that others could use. */
MUST_CHECK enum status advertised_host_check(const char *given, struct error *error);

/* Replaces the host of an address that a port is, or is to be, bound to. UNSUPPORTED: bound to every address, nothing
 * given, and this host has none for others. */
MUST_CHECK enum status advertised_host_apply(const char *given, struct address *address_inout,
                                             struct error *error);
