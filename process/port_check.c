#include "process/port_check.h"

#include "process/address.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* 0, or errno. As gRPC binds it: what a dead process's connections still hold is no hindrance, who listens
 * is. Nothing listens here, so that nobody's connection is taken and dropped. */
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

/* One address of the name is enough. */
static enum status check_free(const struct port_row *row, const struct address *address,
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
    int reason = EADDRNOTAVAIL;
    for (const struct addrinfo *at = found; at && reason != 0; at = at->ai_next)
        reason = try_to_bind(at);
    freeaddrinfo(found);
    if (reason != 0)
        return error_set(error, STATUS_IO_FAILED, "%s %s: %s", row->key, row->address,
                         strerror(reason));
    return STATUS_OK;
}

static enum status check_row(const struct port_row *row, bool is_insecure, struct error *error)
{
    struct address address;
    struct error why = {""};
    if (address_parse_listen(row->address, &address, &why) != STATUS_OK)
        return error_set(error, STATUS_INVALID_ARGUMENT, "%s: %s", row->key, why.text);
    if (!address_is_loopback(&address) && !is_insecure)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "%s \"%s\" is no loopback and there is no TLS: whoever reaches it can use "
                         "it; --insecure allows that",
                         row->key, row->address);
    return STATUS_OK;
}

static bool is_anywhere(const struct port_row *row)
{
    return row->address && (row->address[0] || row->is_needed);
}

static bool is_same_port(const struct port_row *a, const struct port_row *b)
{
    struct address address;
    return is_anywhere(a) && is_anywhere(b) && strcmp(a->address, b->address) == 0 &&
           address_parse_listen(a->address, &address, NULL) == STATUS_OK &&
           (address.is_unix || address.port != 0);
}

enum status port_check(const struct port_row *rows, size_t n, bool is_insecure, struct error *error)
{
    for (size_t i = 0; i < n; i++) {
        if (is_anywhere(&rows[i]))
            TRY(check_row(&rows[i], is_insecure, error));
        for (size_t j = 0; j < i; j++)
            if (is_same_port(&rows[i], &rows[j]))
                return error_set(error, STATUS_INVALID_ARGUMENT, "%s and %s are both %s",
                                 rows[j].key, rows[i].key, rows[i].address);
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
