#include "process/port_check.h"

#include "process/address.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* As gRPC does it: what a dead process's connections still hold is no hindrance. -1 with errno. */
static int listen_at(const struct addrinfo *at)
{
    int one = 1;
    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
        bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, 1) == 0)
        return fd;
    int reason = errno;
    close(fd);
    errno = reason;
    return -1;
}

/* One address of the name is enough. */
static enum status hold(const struct port_row *row, const struct address *address, int *fd_out,
                        struct error *error)
{
    char port[8];
    snprintf(port, sizeof port, "%u", address->port);
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICSERV | AI_PASSIVE};
    struct addrinfo *found;
    int code = getaddrinfo(address->host, port, &hints, &found);
    if (code != 0)
        return error_set(error, STATUS_INVALID_ARGUMENT, "%s %s: %s", row->key, row->address,
                         gai_strerror(code));
    int fd = -1;
    int reason = 0;
    for (const struct addrinfo *at = found; at && fd < 0; at = at->ai_next) {
        fd = listen_at(at);
        reason = errno;
    }
    freeaddrinfo(found);
    if (fd < 0)
        return error_set(error, STATUS_IO_FAILED, "%s %s: %s", row->key, row->address,
                         strerror(reason));
    *fd_out = fd;
    return STATUS_OK;
}

/* fd_out -1: there is nothing to try. */
static enum status check_row(const struct port_row *row, bool is_insecure, int *fd_out,
                             struct error *error)
{
    struct address address;
    struct error why = {""};
    *fd_out = -1;
    if (!row->address || !row->address[0])
        return STATUS_OK;
    enum status status = address_parse(row->address, &address, &why);
    if (status != STATUS_OK)
        return error_set(error, status, "%s: %s", row->key, why.text);
    if (!address_is_loopback(&address) && !is_insecure)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "%s \"%s\" is no loopback and there is no TLS: whoever reaches it can use "
                         "it; --insecure allows that",
                         row->key, row->address);
    if (address.is_unix || address.port == 0)
        return STATUS_OK;
    return hold(row, &address, fd_out, error);
}

static enum status check_repeats(const struct port_row *rows, size_t n, struct error *error)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++)
            if (rows[i].address && rows[j].address && rows[i].address[0] &&
                strcmp(rows[i].address, rows[j].address) == 0) {
                struct address address;
                if (address_parse(rows[i].address, &address, NULL) == STATUS_OK &&
                    (address.is_unix || address.port != 0))
                    return error_set(error, STATUS_INVALID_ARGUMENT, "%s and %s are both %s",
                                     rows[j].key, rows[i].key, rows[i].address);
            }
    return STATUS_OK;
}

enum status port_check(const struct port_row *rows, size_t n, bool is_insecure, struct error *error)
{
    int fds[PORT_CHECK_MAX];
    size_t n_tried = 0;
    assert(n <= PORT_CHECK_MAX);
    enum status status = check_repeats(rows, n, error);
    while (status == STATUS_OK && n_tried < n) {
        status = check_row(&rows[n_tried], is_insecure, &fds[n_tried], error);
        n_tried++;
    }
    for (size_t i = 0; i < n_tried; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    return status;
}
