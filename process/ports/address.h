/*
 * address - parses "host:port": "127.0.0.1:50051", "[::1]:0", "name:80", ":9400".
 *
 * An empty host means all interfaces for a port to listen on, and the loopback for a connection. Port
 * 0 means any free port. "unix:/path" is kept whole.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define ADDRESS_TEXT_MAX 160

struct address {
    char host[ADDRESS_TEXT_MAX - 16]; /* without brackets; "unix:/path" whole */
    uint16_t port;
    bool is_unix;
};

/* INVALID_ARGUMENT: the sentence has the text and what is wrong with it. */
MUST_CHECK enum status address_parse(const char *text, struct address *address_out,
                                     struct error *error);
/* For a port to listen on: an empty host becomes "::", which also accepts IPv4, or "0.0.0.0" on a
 * machine without IPv6. */
MUST_CHECK enum status address_parse_listen(const char *text, struct address *address_out,
                                            struct error *error);
/* A Unix socket counts as a loopback. A name other than "localhost" does not, whatever its
 * addresses are. */
bool address_is_loopback(const struct address *address);
void address_format(const struct address *address, char text_out[ADDRESS_TEXT_MAX]);

/* Takes the next address of a comma-separated list and advances *list_inout; false: the end. */
bool address_list_next(const char **list_inout, char text_out[ADDRESS_TEXT_MAX]);
