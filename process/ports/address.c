#include "process/ports/address.h"

#include <assert.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static enum status set_host(struct address *address, const char *host, size_t n, const char *text,
                            struct error *error)
{
    assert(n > 0 && "no host at all means the default one");
    if (n >= sizeof address->host)
        return error_set(error, STATUS_INVALID_ARGUMENT, "address \"%.60s...\": host too long",
                         text);
    memcpy(address->host, host, n);
    address->host[n] = '\0';
    return STATUS_OK;
}

static enum status set_port(struct address *address, const char *port, const char *text,
                            struct error *error)
{
    uint32_t value = 0;
    const char *digit = port;
    for (; *digit >= '0' && *digit <= '9' && value <= UINT16_MAX; digit++)
        value = value * 10 + (uint32_t)(*digit - '0');
    if (digit == port || *digit != '\0' || value > UINT16_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "address \"%s\": \"%s\" is not a port (0 .. 65535)", text, port);
    address->port = (uint16_t)value;
    return STATUS_OK;
}

/* A URL from a browser or another system: the part before the host is not part of an address. */
static enum status refuse_scheme(const char *text, const char *host, struct error *error)
{
    const int n = (int)(host - text);
    const bool is_secure = strncmp(text, "https:", 6) == 0;
    return error_set(error, STATUS_INVALID_ARGUMENT,
                     "address \"%s\": leave \"%.*s\" out and give only HOST:PORT%s", text, n, text,
                     is_secure ? "; other settings turn on TLS" : "");
}

/* empty_host: the host for an address without one. */
static enum status parse(const char *text, const char *empty_host, struct address *address_out,
                         struct error *error)
{
    struct address address = {0};
    if (strncmp(text, "unix:", 5) == 0) {
        address.is_unix = true;
        TRY(set_host(&address, text, strlen(text), text, error));
        *address_out = address;
        return STATUS_OK;
    }

    const char *scheme = strstr(text, "://");
    if (scheme)
        return refuse_scheme(text, scheme + 3, error);
    const char *colon = strrchr(text, ':');
    if (!colon)
        return error_set(error, STATUS_INVALID_ARGUMENT, "address \"%s\": no port", text);
    const char *host = text;
    size_t n = (size_t)(colon - text);
    if (n > 0 && host[0] == '[') {
        if (host[n - 1] != ']')
            return error_set(error, STATUS_INVALID_ARGUMENT, "address \"%s\": no closing ]", text);
        host++;
        n -= 2;
        if (n == 0)
            return error_set(error, STATUS_INVALID_ARGUMENT, "address \"%s\": no host in []", text);
    } else if (memchr(host, ':', n)) {
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "address \"%s\": an IPv6 host needs brackets", text);
    }
    bool is_empty = colon == text;
    TRY(set_host(&address, is_empty ? empty_host : host, is_empty ? strlen(empty_host) : n, text,
                 error));
    TRY(set_port(&address, colon + 1, text, error));
    *address_out = address;
    return STATUS_OK;
}

enum status address_parse(const char *text, struct address *address_out, struct error *error)
{
    return parse(text, "127.0.0.1", address_out, error);
}

/* Whether an IPv6 socket that also accepts IPv4 can be bound. */
static bool has_ipv6(void)
{
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    const struct sockaddr_in6 any = {.sin6_family = AF_INET6};
    const int off = 0;
    bool has = setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) == 0 &&
               bind(fd, (const struct sockaddr *)&any, sizeof any) == 0;
    close(fd);
    return has;
}

enum status address_parse_listen(const char *text, struct address *address_out, struct error *error)
{
    return parse(text, text[0] == ':' && has_ipv6() ? "::" : "0.0.0.0", address_out, error);
}

bool address_is_loopback(const struct address *address)
{
    return address->is_unix || strcmp(address->host, "localhost") == 0 ||
           strcmp(address->host, "::1") == 0 || strncmp(address->host, "127.", 4) == 0;
}

void address_format(const struct address *address, char text_out[ADDRESS_TEXT_MAX])
{
    _Static_assert(sizeof address->host + sizeof "[]:65535" <= ADDRESS_TEXT_MAX, "never cut");
    if (address->is_unix)
        snprintf(text_out, ADDRESS_TEXT_MAX, "%s", address->host);
    else if (strchr(address->host, ':'))
        snprintf(text_out, ADDRESS_TEXT_MAX, "[%s]:%u", address->host, address->port);
    else
        snprintf(text_out, ADDRESS_TEXT_MAX, "%s:%u", address->host, address->port);
}

bool address_list_next(const char **list_inout, char text_out[ADDRESS_TEXT_MAX])
{
    const char *at = *list_inout + strspn(*list_inout, ", ");
    size_t n = strcspn(at, ", ");
    *list_inout = at + n;
    if (n == 0)
        return false;
    snprintf(text_out, ADDRESS_TEXT_MAX, "%.*s", (int)(n < ADDRESS_TEXT_MAX ? n : 0), at);
    return true;
}
