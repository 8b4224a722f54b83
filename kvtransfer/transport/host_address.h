/*
 * host_address - the address of a network device at which a worker can be reached.
 *
 * Thread: any; no state.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define HOST_ADDRESSES_MAX 8u /* of one worker */

struct sockaddr; /* of <sys/socket.h>, which this header does not include */
struct sockaddr_storage;

/* Of IPv4 (n_bytes 4) or IPv6 (16), in the order of the wire. */
struct host_address {
    uint8_t n_bytes;
    uint8_t bytes[16];
};

/* How many bytes of the address are used. */
uint32_t host_address_to_socket(const struct host_address *host, uint16_t port,
                                struct sockaddr_storage *address_out);
/* IPv4 written as IPv6 becomes IPv4. False: of neither family. */
bool host_address_from_socket(const struct sockaddr *address, struct host_address *host_out);
bool host_address_is_loopback(const struct host_address *host);
bool host_address_equals(const struct host_address *a, const struct host_address *b);
