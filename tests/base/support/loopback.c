#include "loopback.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

int loopback_connect(int family, uint16_t port)
{
    const struct sockaddr_in v4 = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct sockaddr_in6 v6 = {
        .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int failed = family == AF_INET ? connect(fd, (const struct sockaddr *)&v4, sizeof v4)
                                   : connect(fd, (const struct sockaddr *)&v6, sizeof v6);
    if (failed)
        close(fd);
    return failed ? -1 : fd;
}
