#include "process/ports/port_check.h"

#include "process/ports/address.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* 0, or errno. Binds as gRPC does: old connections of a dead process are no conflict, a listener is. It
 * does not listen, so that no connection is accepted and dropped. */
static int try_to_bind(const struct addrinfo *at)
{
    int one = 1;
    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    bool is_bound = setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
                    bind(fd, at->ai_addr, at->ai_addrlen) == 0;
    int reason = is_bound ? 0 : errno;
    close(fd);
    return reason;
}

/* 0, or an error code for gai_strerror. */
static int look_up(const struct address *address, struct addrinfo **found_out)
{
    char port[8];
    snprintf(port, sizeof port, "%u", address->port);
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICSERV | AI_PASSIVE};
    return getaddrinfo(address->host, port, &hints, found_out);
}

/* It is enough if one address of the name can be bound. */
static enum status check_free(const struct port_row *row, const struct address *address,
                              struct error *error)
{
    struct addrinfo *found;
    assert(!address->is_unix && address->port != 0 && "any port is free, and a path is replaced");
    int code = look_up(address, &found);
    if (code != 0)
        return error_set(error, STATUS_INVALID_ARGUMENT, "%s %s: %s", row->key, row->address,
                         gai_strerror(code));
    int reason = EADDRNOTAVAIL;
    for (const struct addrinfo *at = found; at && reason != 0; at = at->ai_next)
        reason = try_to_bind(at);
    freeaddrinfo(found);
    if (reason != 0)
        return error_set(error, STATUS_IO_FAILED, "%s %s: %s", row->key, row->address,
                         strerror(reason));
    return STATUS_OK;
}

static enum status check_row(const struct port_row *row, const struct port_given *given,
                             struct error *error)
{
    struct address address;
    struct error why = {""};
    if (address_parse_listen(row->address, &address, &why) != STATUS_OK)
        return error_set(error, STATUS_INVALID_ARGUMENT, "%s: %s", row->key, why.text);
    if (address.is_unix && row->use == PORT_USE_METRICS)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "%s \"%s\" is a unix socket; this is an HTTP port and needs HOST:PORT",
                         row->key, row->address);
    enum port_reach reach = address_is_loopback(&address) ? PORT_REACH_HOST : PORT_REACH_NETWORK;
    return port_needs_check(row->use, reach, given, row->key, row->address, error);
}

static bool is_anywhere(const struct port_row *row)
{
    return row->address && (row->address[0] || row->is_needed);
}

/* Compares in IPv6 form, which both families have. */
static struct sockaddr_in6 as_ipv6(const struct sockaddr *from)
{
    struct sockaddr_in6 to = {.sin6_family = AF_INET6};
    struct sockaddr_in v4;
    assert(from->sa_family == AF_INET || from->sa_family == AF_INET6);
    if (from->sa_family == AF_INET6) {
        memcpy(&to, from, sizeof to);
        return to;
    }
    memcpy(&v4, from, sizeof v4);
    to.sin6_addr.s6_addr[10] = to.sin6_addr.s6_addr[11] = 0xff;
    memcpy(&to.sin6_addr.s6_addr[12], &v4.sin_addr, sizeof v4.sin_addr);
    return to;
}

static bool is_everywhere(const struct sockaddr_in6 *at)
{
    static const struct in6_addr ANY_IPV4 = {.s6_addr = {[10] = 0xff, [11] = 0xff}};
    return IN6_IS_ADDR_UNSPECIFIED(&at->sin6_addr) || IN6_ARE_ADDR_EQUAL(&at->sin6_addr, &ANY_IPV4);
}

static bool is_same_host(const struct sockaddr *a, const struct sockaddr *b)
{
    struct sockaddr_in6 one = as_ipv6(a), other = as_ipv6(b);
    return is_everywhere(&one) || is_everywhere(&other) ||
           (IN6_ARE_ADDR_EQUAL(&one.sin6_addr, &other.sin6_addr) &&
            one.sin6_scope_id == other.sin6_scope_id);
}

/* A name without addresses does not overlap; port_check_free reports what is wrong with it. */
static bool do_hosts_overlap(const struct address *a, const struct address *b)
{
    struct addrinfo *ones = NULL, *others = NULL;
    bool do_overlap = false;
    if (look_up(a, &ones) == 0 && look_up(b, &others) == 0)
        for (const struct addrinfo *one = ones; one; one = one->ai_next)
            for (const struct addrinfo *other = others; other; other = other->ai_next)
                do_overlap = do_overlap || is_same_host(one->ai_addr, other->ai_addr);
    if (ones)
        freeaddrinfo(ones);
    if (others)
        freeaddrinfo(others);
    return do_overlap;
}

static bool is_same_port(const struct port_row *a, const struct port_row *b)
{
    struct address one, other;
    assert(a != b && "a port is at its own address");
    if (!is_anywhere(a) || !is_anywhere(b) ||
        address_parse_listen(a->address, &one, NULL) != STATUS_OK ||
        address_parse_listen(b->address, &other, NULL) != STATUS_OK ||
        one.is_unix != other.is_unix || one.port != other.port)
        return false;
    if (strcmp(one.host, other.host) == 0)
        return one.is_unix || one.port != 0;
    return !one.is_unix && one.port != 0 && do_hosts_overlap(&one, &other);
}

static enum status refuse_same_port(const struct port_row *a, const struct port_row *b,
                                    struct error *error)
{
    if (strcmp(a->address, b->address) == 0)
        return error_set(error, STATUS_INVALID_ARGUMENT, "%s and %s are both %s", a->key, b->key,
                         a->address);
    return error_set(error, STATUS_INVALID_ARGUMENT, "%s %s and %s %s are the same port", a->key,
                     a->address, b->key, b->address);
}

enum status port_check(const struct port_row *rows, size_t n, const struct port_given *given,
                       struct error *error)
{
    for (size_t i = 0; i < n; i++) {
        if (is_anywhere(&rows[i]))
            TRY(check_row(&rows[i], given, error));
        for (size_t j = 0; j < i; j++)
            if (is_same_port(&rows[i], &rows[j]))
                return refuse_same_port(&rows[j], &rows[i], error);
    }
    return STATUS_OK;
}

enum status port_check_free(const struct port_row *rows, size_t n, struct error *error)
{
    for (size_t i = 0; i < n; i++) {
        struct address address;
        if (is_anywhere(&rows[i]) &&
            address_parse_listen(rows[i].address, &address, NULL) == STATUS_OK &&
            !address.is_unix && address.port != 0)
            TRY(check_free(&rows[i], &address, error));
    }
    return STATUS_OK;
}
