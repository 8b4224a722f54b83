#include "rpc/relay/network.h"

#include <arpa/inet.h>
#include <assert.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#define IPV4_AT   12 /* offset of IPv4 in the 16 bytes */
#define IPV4_BITS 32
#define ALL_BITS  128

static const uint8_t IPV4_PREFIX[IPV4_AT] = {[10] = 0xff, [11] = 0xff};

bool network_address_is_ipv4(const struct network_address *address)
{
    return memcmp(address->bytes, IPV4_PREFIX, sizeof IPV4_PREFIX) == 0;
}

static void set_ipv4(struct network_address *address, const void *four_bytes)
{
    memcpy(address->bytes, IPV4_PREFIX, sizeof IPV4_PREFIX);
    memcpy(address->bytes + IPV4_AT, four_bytes, 4);
}

bool network_address_of(const struct sockaddr_storage *socket_address,
                        struct network_address *address_out)
{
    if (socket_address->ss_family == AF_INET) {
        set_ipv4(address_out, &((const struct sockaddr_in *)socket_address)->sin_addr);
        return true;
    }
    if (socket_address->ss_family == AF_INET6) {
        const struct sockaddr_in6 *ipv6 = (const struct sockaddr_in6 *)socket_address;
        memcpy(address_out->bytes, &ipv6->sin6_addr, sizeof address_out->bytes);
        return true;
    }
    return false;
}

/* Reads the number after a '/', at most max; false: not a number. */
static bool read_bits(const char *text, uint32_t max, uint32_t *bits_out)
{
    uint32_t value = 0;
    const char *digit = text;
    for (; *digit >= '0' && *digit <= '9' && value <= max; digit++)
        value = value * 10 + (uint32_t)(*digit - '0');
    *bits_out = value;
    return digit != text && *digit == '\0' && value <= max;
}

static bool read_one(char *text, struct network *network_out)
{
    char *slash = strchr(text, '/');
    if (slash)
        *slash = '\0';
    struct in_addr ipv4;
    bool is_ipv4 = inet_pton(AF_INET, text, &ipv4) == 1;
    if (is_ipv4)
        set_ipv4(&network_out->address, &ipv4);
    else if (inet_pton(AF_INET6, text, network_out->address.bytes) != 1)
        return false;
    uint32_t n_bits = is_ipv4 ? IPV4_BITS : ALL_BITS;
    if (slash && !read_bits(slash + 1, n_bits, &n_bits))
        return false;
    network_out->n_bits = (uint8_t)(is_ipv4 ? n_bits + ALL_BITS - IPV4_BITS : n_bits);
    return true;
}

enum status network_list_read(const char *text, struct network_list *list_out, struct error *error)
{
    static const char SEPARATORS[] = ", \t";
    char word[INET6_ADDRSTRLEN + 8];
    list_out->n = 0;
    for (const char *at = text + strspn(text, SEPARATORS); *at; at += strspn(at, SEPARATORS)) {
        size_t n = strcspn(at, SEPARATORS);
        snprintf(word, sizeof word, "%.*s", n < INT_MAX ? (int)n : INT_MAX, at);
        if (list_out->n == NETWORK_LIST_MAX)
            return error_set(error, STATUS_INVALID_ARGUMENT, "more than %d networks",
                             NETWORK_LIST_MAX);
        if (n >= sizeof word || !read_one(word, &list_out->networks[list_out->n]))
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "\"%.60s\" is not a network (10.0.0.0/8, ::1, fd00::/8)", at);
        list_out->n++;
        at += n;
    }
    return STATUS_OK;
}

static bool is_in(const struct network *network, const struct network_address *address)
{
    assert(network->n_bits <= ALL_BITS);
    uint32_t n_bytes = network->n_bits / 8, n_rest = network->n_bits % 8;
    if (memcmp(network->address.bytes, address->bytes, n_bytes) != 0)
        return false;
    uint8_t mask = (uint8_t)(0xff00 >> n_rest);
    return n_rest == 0 || ((network->address.bytes[n_bytes] ^ address->bytes[n_bytes]) & mask) == 0;
}

bool network_list_has(const struct network_list *list, const struct network_address *address)
{
    for (uint32_t i = 0; i < list->n; i++)
        if (is_in(&list->networks[i], address))
            return true;
    return false;
}

void network_peer_name(const struct sockaddr_storage *socket_address, char *name_out, size_t bytes)
{
    char host[INET6_ADDRSTRLEN];
    struct network_address address;
    assert(bytes > 0);
    if (!network_address_of(socket_address, &address)) {
        snprintf(name_out, bytes, "unix:");
        return;
    }
    /* Both families have the port at the same place. */
    in_port_t port = ((const struct sockaddr_in6 *)socket_address)->sin6_port;
    if (network_address_is_ipv4(&address)) {
        inet_ntop(AF_INET, address.bytes + 12, host, sizeof host);
        snprintf(name_out, bytes, "ipv4:%s:%u", host, ntohs(port));
    } else {
        inet_ntop(AF_INET6, address.bytes, host, sizeof host);
        snprintf(name_out, bytes, "ipv6:[%s]:%u", host, ntohs(port));
    }
}
