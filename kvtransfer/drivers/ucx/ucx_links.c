#include "kvtransfer/drivers/ucx/ucx_links.h"

#include "base/clock.h"
#include "base/log/log.h"
#include "kvtransfer/transport/data_port.h"

#include <assert.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static bool is_bridge(const char *name)
{
    char path[sizeof "/sys/class/net//bridge" + IF_NAMESIZE];
    snprintf(path, sizeof path, "/sys/class/net/%s/bridge", name);
    return access(path, F_OK) == 0;
}

static bool lacks_link(const struct ifaddrs *device, const char *devices)
{
    bool has_address = device->ifa_addr && (device->ifa_addr->sa_family == AF_INET ||
                                            device->ifa_addr->sa_family == AF_INET6);
    if (!has_address || !(device->ifa_flags & IFF_UP) || (device->ifa_flags & IFF_RUNNING))
        return false;
    return devices[0] ? data_port_has_device(devices, device->ifa_name)
                      : !is_bridge(device->ifa_name);
}

/* False: the devices cannot be listed. missing_out "": all have their link. */
static bool find_missing(const char *devices, char missing_out[IF_NAMESIZE])
{
    struct ifaddrs *all;
    missing_out[0] = '\0';
    if (getifaddrs(&all) != 0)
        return false;
    for (const struct ifaddrs *one = all; one && !missing_out[0]; one = one->ifa_next)
        if (lacks_link(one, devices))
            snprintf(missing_out, IF_NAMESIZE, "%s", one->ifa_name);
    freeifaddrs(all);
    return true;
}

/* Opens a socket for the kernel's messages about links. Below 0: not possible. */
static int open_news(void)
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE);
    const struct sockaddr_nl links = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK};
    if (fd < 0 || bind(fd, (const struct sockaddr *)(const void *)&links, sizeof links) == 0)
        return fd;
    close(fd);
    return -1;
}

/* The devices are listed anew after any message, and also when messages were lost. */
static void wait_for_news(int fd, uint64_t until_ns, uint64_t now_ns)
{
    char news[8192];
    assert(now_ns < until_ns);
    struct pollfd wanted = {.fd = fd, .events = POLLIN};
    const struct timespec left = {(time_t)((until_ns - now_ns) / NS_PER_S),
                                  (long)((until_ns - now_ns) % NS_PER_S)};
    if (ppoll(&wanted, 1, &left, NULL) > 0)
        while (recv(fd, news, sizeof news, 0) > 0)
            ;
}

bool ucx_links_wait(const char *devices, uint64_t limit_ns, char missing_out[IF_NAMESIZE])
{
    const char *wanted = devices ? devices : "";
    int fd = open_news(); /* before the first look, so that no change is missed */
    uint64_t began_ns = clock_now_ns(), now_ns = began_ns;
    uint64_t until_ns = began_ns + limit_ns;
    bool is_listed = find_missing(wanted, missing_out);
    if (missing_out[0] && limit_ns > 0)
        log_info("network device %s has no link yet: waiting for it", missing_out);
    while (is_listed && missing_out[0] && fd >= 0 && now_ns < until_ns) {
        wait_for_news(fd, until_ns, now_ns);
        is_listed = find_missing(wanted, missing_out);
        now_ns = clock_now_ns();
    }
    if (fd >= 0)
        close(fd);
    return is_listed && !missing_out[0];
}
