#include "kvtransfer/transport/data_port.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BACKLOG = 128 };

/* ---- devices ---- */

static enum status check_devices(const char *devices, struct error *error)
{
    for (const char *p = devices; *p;) {
        char name[IF_NAMESIZE];
        size_t n = strcspn(p, ",");
        if (n == 0 || n >= sizeof name)
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "network device list '%s' has an invalid device name", devices);
        memcpy(name, p, n);
        name[n] = '\0';
        if (if_nametoindex(name) == 0)
            return error_set(error, STATUS_INVALID_ARGUMENT, "there is no network device '%s'",
                             name);
        p += n + (p[n] == ',');
    }
    return STATUS_OK;
}

/* UCX accepts any text as a range, and then uses any port. */
static enum status parse_range(const char *range, unsigned *first_out, unsigned *last_out,
                               struct error *error)
{
    unsigned first = 0, last = 0;
    int n = 0;
    if (strspn(range, "0123456789-") != strlen(range) ||
        sscanf(range, "%5u-%5u%n", &first, &last, &n) != 2 || range[n] != '\0' || first == 0 ||
        first > last || last > UINT16_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "ucx_port_range \"%s\" is not a range of ports such as 20000-20009",
                         range);
    *first_out = first;
    *last_out = last;
    return STATUS_OK;
}

enum status data_port_check(const struct data_port *port, struct error *error)
{
    unsigned first, last;
    if (port->range && *port->range)
        TRY(parse_range(port->range, &first, &last, error));
    return port->devices ? check_devices(port->devices, error) : STATUS_OK;
}

bool data_port_has_device(const char *devices, const char *name)
{
    size_t bytes = strlen(name);
    for (const char *p = devices; *p;) {
        size_t n = strcspn(p, ",");
        if (n == bytes && memcmp(p, name, n) == 0)
            return true;
        p += n + (p[n] == ',');
    }
    return false;
}

static bool is_link_local(const struct sockaddr *address)
{
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)address;
    return address->sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr);
}

/* Those of one family; IPv4 is tried first. */
static uint32_t list_hosts(const struct ifaddrs *all, const char *devices, bool with_loopback,
                           struct host_address hosts_out[HOST_ADDRESSES_MAX])
{
    uint32_t n = 0;
    for (uint8_t n_bytes = 4; n_bytes <= 16; n_bytes += 12) {
        for (const struct ifaddrs *one = all; one; one = one->ifa_next) {
            struct host_address host;
            bool is_wanted = devices[0] ? data_port_has_device(devices, one->ifa_name)
                                        : with_loopback || (one->ifa_flags & IFF_LOOPBACK) == 0;
            if (n < HOST_ADDRESSES_MAX && is_wanted && one->ifa_addr &&
                !is_link_local(one->ifa_addr) && host_address_from_socket(one->ifa_addr, &host) &&
                host.n_bytes == n_bytes)
                hosts_out[n++] = host;
        }
    }
    return n;
}

enum status data_port_hosts(const struct data_port *port,
                            struct host_address hosts_out[HOST_ADDRESSES_MAX], uint32_t *n_out,
                            struct error *error)
{
    const char *devices = port->devices ? port->devices : "";
    struct ifaddrs *all;
    TRY(check_devices(devices, error));
    if (getifaddrs(&all) != 0)
        return error_set(error, STATUS_UNSUPPORTED, "network devices cannot be listed: %m");
    uint32_t n = list_hosts(all, devices, false, hosts_out);
    if (n == 0 && !devices[0])
        n = list_hosts(all, devices, true, hosts_out);
    freeifaddrs(all);
    if (n == 0)
        return error_set(error, STATUS_UNSUPPORTED, "network devices '%s' have no address",
                         devices[0] ? devices : "all");
    *n_out = n;
    return STATUS_OK;
}

/* ---- listening ---- */

static int listen_at(const struct host_address *host, uint16_t port)
{
    const int on = 1;
    struct sockaddr_storage address;
    socklen_t bytes = host_address_to_socket(host, port, &address);
    int fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (address.ss_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    if (port != 0) /* not that of a life before, in TIME_WAIT */
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (const struct sockaddr *)(const void *)&address, bytes) == 0 &&
        listen(fd, BACKLOG) == 0)
        return fd;
    int error_number = errno;
    close(fd);
    errno = error_number;
    return -1;
}

static bool port_of(int fd, uint16_t *port_out)
{
    struct sockaddr_in6 address = {0}; /* IPv4's port is at the same place */
    socklen_t bytes = sizeof address;
    if (getsockname(fd, (struct sockaddr *)(void *)&address, &bytes) != 0)
        return false;
    *port_out = ntohs(address.sin6_port);
    return true;
}

enum status data_port_listen(const struct data_port *port, const struct host_address *host,
                             int *fd_out, uint16_t *port_out, struct error *error)
{
    unsigned first = 0, last = 0;
    if (port->range && *port->range)
        TRY(parse_range(port->range, &first, &last, error));
    int fd = -1;
    for (unsigned at = first; at <= last && fd < 0; at++)
        fd = listen_at(host, (uint16_t)at);
    assert(first <= last && last <= UINT16_MAX);
    if (fd < 0)
        return error_set(error, STATUS_IO_FAILED, "no data port can be opened%s%s: %m",
                         first ? " in " : "", first ? port->range : "");
    if (!port_of(fd, port_out)) {
        close(fd);
        return error_set(error, STATUS_IO_FAILED, "the data port has no number: %m");
    }
    *fd_out = fd;
    return STATUS_OK;
}
