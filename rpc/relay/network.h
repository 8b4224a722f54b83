/*
 * network - parses a list of IPv4 and IPv6 networks, such as "10.0.0.0/8, ::1, fd00::/8".
 *
 * An address is 16 bytes; IPv4 is ::ffff:a.b.c.d. Thread: any after parsing (plain data).
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define NETWORK_LIST_MAX 64

struct network_address {
    uint8_t bytes[16];
};

struct network {
    struct network_address address;
    uint8_t n_bits; /* of the 128 */
};

struct network_list {
    struct network networks[NETWORK_LIST_MAX];
    uint32_t n;
};

/* Networks are separated by commas or blanks; "" is an empty list. INVALID_ARGUMENT: the sentence
 * has the text that is no network, or says that there are too many. */
MUST_CHECK enum status network_list_read(const char *text, struct network_list *list_out,
                                         struct error *error);
bool network_list_has(const struct network_list *list, const struct network_address *address);

/* False: neither IPv4 nor IPv6. */
bool network_address_of(const struct sockaddr_storage *socket_address,
                        struct network_address *address_out);
bool network_address_is_ipv4(const struct network_address *address);
/* As struct rpc_peer has it: "ipv4:127.0.0.1:4711", "ipv6:[::1]:4711", "unix:"; cut to size. */
void network_peer_name(const struct sockaddr_storage *socket_address, char *name_out, size_t bytes);
