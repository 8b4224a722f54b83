#include "kvtransfer/transport/host_address.h"

#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <string.h>

uint32_t host_address_to_socket(const struct host_address *host, uint16_t port,
                                struct sockaddr_storage *address_out)
{
    *address_out = (struct sockaddr_storage){0};
    assert(host->n_bytes == 4 || host->n_bytes == 16);
    if (host->n_bytes == 4) {
        struct sockaddr_in *in = (struct sockaddr_in *)(void *)address_out;
        in->sin_family = AF_INET;
        in->sin_port = htons(port);
        memcpy(&in->sin_addr, host->bytes, 4);
        return sizeof *in;
    }
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)(void *)address_out;
    in6->sin6_family = AF_INET6;
    in6->sin6_port = htons(port);
    memcpy(&in6->sin6_addr, host->bytes, 16);
    return sizeof *in6;
}

bool host_address_from_socket(const struct sockaddr *address, struct host_address *host_out)
{
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)address;
        *host_out = (struct host_address){.n_bytes = 4};
        memcpy(host_out->bytes, &in->sin_addr, 4);
        return true;
    }
    if (address->sa_family != AF_INET6)
        return false;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)address;
    bool is_mapped = IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr);
    *host_out = (struct host_address){.n_bytes = is_mapped ? 4 : 16};
    memcpy(host_out->bytes, in6->sin6_addr.s6_addr + (is_mapped ? 12 : 0), host_out->n_bytes);
    return true;
}

bool host_address_is_loopback(const struct host_address *host)
{
    static const uint8_t LOOPBACK6[16] = {[15] = 1};
    return host->n_bytes == 4 ? host->bytes[0] == 127
                              : memcmp(host->bytes, LOOPBACK6, sizeof LOOPBACK6) == 0;
}

bool host_address_equals(const struct host_address *a, const struct host_address *b)
{
    return a->n_bytes == b->n_bytes && memcmp(a->bytes, b->bytes, a->n_bytes) == 0;
}
