/*
 * http_host - whether a browser asks by a name of this machine.
 *
 * A web page may lead a name of its own to a loopback address (DNS rebinding). Then its scripts read what this machine's ports
 * answer, but the browser still sends that name as Host. So a port that is for this machine takes only localhost and addresses.
 *
 * Thread: any; no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* host: n bytes of a Host, or of an Origin behind "://", with a port or without. True: an address, or localhost. */
bool http_host_is_local(const char *host, size_t n);
/* Of these, localhost and the loopback addresses alone. */
bool http_host_is_loopback(const char *host, size_t n);
/* One of names, which are separated by commas; "*" is any. */
bool http_host_is_named(const char *host, size_t n, const char *names);
/* Local, or one of names. */
bool http_host_is_one_of(const char *host, size_t n, const char *names);
