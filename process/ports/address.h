/*
 * address - "host:port" as people write it: "127.0.0.1:50051", "[::1]:0", "name:80", ":9400".
 *
 * An empty host is every interface where a process listens, and the loopback where it connects. Port 0
 * asks the system for a free one. "unix:/path" is kept whole.
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

/* INVALID_ARGUMENT with the text and what is wrong with it. */
MUST_CHECK enum status address_parse(const char *text, struct address *address_out,
                                     struct error *error);
/* Of a port to listen on: an empty host is "::", which takes IPv4 too, or "0.0.0.0" on a machine
 * without IPv6. */
MUST_CHECK enum status address_parse_listen(const char *text, struct address *address_out,
                                            struct error *error);
/* A unix socket counts. A name other than "localhost" does not, wherever it leads. */
bool address_is_loopback(const struct address *address);
void address_format(const struct address *address, char text_out[ADDRESS_TEXT_MAX]);

/* Takes the next address of a comma-separated list; false at its end. *list_inout moves on. */
bool address_list_next(const char **list_inout, char text_out[ADDRESS_TEXT_MAX]);
