#include "process/ports/advertised_host.h"

#include <assert.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CANDIDATES_MAX 32u

/* The addresses of this host, as text. */
struct candidates {
    uint32_t n;
    char hosts[CANDIDATES_MAX][ADVERTISED_HOST_MAX];
};

/* False: not a numeric address. */
static bool read_number(const char *host, struct sockaddr_storage *address_out)
{
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    if (getaddrinfo(host, NULL, &hints, &found) != 0)
        return false;
    assert(found->ai_addrlen <= sizeof *address_out);
    memset(address_out, 0, sizeof *address_out);
    memcpy(address_out, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return true;
}

/* Also IPv4 that is written as IPv6. */
static bool is_every_address(const char *host)
{
    static const struct in6_addr MAPPED_ANY = {.s6_addr = {[10] = 0xff, [11] = 0xff}};
    struct sockaddr_storage address;
    if (!host[0])
        return true;
    if (!read_number(host, &address))
        return false;
    if (address.ss_family == AF_INET)
        return ((const struct sockaddr_in *)(const void *)&address)->sin_addr.s_addr == INADDR_ANY;
    const struct in6_addr *in6 = &((const struct sockaddr_in6 *)(const void *)&address)->sin6_addr;
    return IN6_IS_ADDR_UNSPECIFIED(in6) || memcmp(in6, &MAPPED_ANY, sizeof *in6) == 0;
}

static bool is_host_name(const char *host)
{
    size_t n = strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._");
    return host[n] == '\0' && host[0] != '-' && host[0] != '.';
}

enum status advertised_host_check(const char *given, struct error *error)
{
    struct sockaddr_storage address;
    if (!given[0])
        return STATUS_OK;
    if (strlen(given) >= ADVERTISED_HOST_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT, "advertise_address \"%.60s...\": too long",
                         given);
    if (is_every_address(given))
        return error_set(
            error, STATUS_INVALID_ARGUMENT,
            "advertise_address \"%s\" means all addresses; it must be one that others can use",
            given);
    if (!read_number(given, &address) && !is_host_name(given))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "advertise_address \"%s\" is not a host; it must be an address or a name, "
                         "without a port and without brackets",
                         given);
    return STATUS_OK;
}

/* ---- addresses of this host ---- */

static socklen_t bytes_of(const struct sockaddr *address)
{
    assert(address->sa_family == AF_INET || address->sa_family == AF_INET6);
    return address->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

static bool is_for_others(const struct ifaddrs *one, int family)
{
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)one->ifa_addr;
    return one->ifa_addr && one->ifa_addr->sa_family == family && (one->ifa_flags & IFF_UP) != 0 &&
           (one->ifa_flags & IFF_LOOPBACK) == 0 &&
           !(family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr));
}

static void add_family(const struct ifaddrs *all, int family, struct candidates *candidates)
{
    for (const struct ifaddrs *one = all; one && candidates->n < CANDIDATES_MAX;
         one = one->ifa_next)
        if (is_for_others(one, family) &&
            getnameinfo(one->ifa_addr, bytes_of(one->ifa_addr), candidates->hosts[candidates->n],
                        ADVERTISED_HOST_MAX, NULL, 0, NI_NUMERICHOST) == 0)
            candidates->n++;
    assert(candidates->n <= CANDIDATES_MAX);
}

static void list_candidates(bool is_ipv4_only, struct candidates *candidates_out)
{
    struct ifaddrs *all;
    candidates_out->n = 0;
    if (getifaddrs(&all) != 0)
        return;
    add_family(all, AF_INET, candidates_out);
    if (!is_ipv4_only)
        add_family(all, AF_INET6, candidates_out);
    freeifaddrs(all);
}

/* Returns candidates->n if there is none. */
static uint32_t find(const struct candidates *candidates, const struct sockaddr *address)
{
    char host[ADVERTISED_HOST_MAX];
    uint32_t i = 0;
    if (getnameinfo(address, bytes_of(address), host, sizeof host, NULL, 0, NI_NUMERICHOST) != 0)
        return candidates->n;
    while (i < candidates->n && strcmp(candidates->hosts[i], host) != 0)
        i++;
    return i;
}

/* Chooses the address of the host's name, else the first. */
static uint32_t choose(const struct candidates *candidates)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    char name[256];
    struct addrinfo *found;
    assert(candidates->n > 0);
    uint32_t chosen = candidates->n;
    if (candidates->n == 1 || gethostname(name, sizeof name) != 0 ||
        getaddrinfo(name, NULL, &hints, &found) != 0)
        return 0;
    for (const struct addrinfo *at = found; at && chosen == candidates->n; at = at->ai_next)
        chosen = find(candidates, at->ai_addr);
    freeaddrinfo(found);
    return chosen < candidates->n ? chosen : 0;
}

static enum status derive(struct address *address, struct error *error)
{
    struct candidates candidates;
    struct sockaddr_storage bound;
    bool is_ipv4_only = read_number(address->host, &bound) && bound.ss_family == AF_INET;
    list_candidates(is_ipv4_only, &candidates);
    if (candidates.n == 0)
        return error_set(
            error, STATUS_UNSUPPORTED,
            "a port is open at %s, and no interface of this host has an address%s that "
            "others can use: set advertise_address",
            address->host, is_ipv4_only ? " of IPv4" : "");
    snprintf(address->host, sizeof address->host, "%s", candidates.hosts[choose(&candidates)]);
    return STATUS_OK;
}

enum status advertised_host_apply(const char *given, struct address *address_inout,
                                  struct error *error)
{
    assert(strlen(given) < sizeof address_inout->host && "advertised_host_check has passed it");
    if (address_is_loopback(address_inout))
        return STATUS_OK;
    if (given[0]) {
        snprintf(address_inout->host, sizeof address_inout->host, "%s", given);
        return STATUS_OK;
    }
    return is_every_address(address_inout->host) ? derive(address_inout, error) : STATUS_OK;
}
