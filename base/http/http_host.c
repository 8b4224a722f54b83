#include "base/http/http_host.h"

#include <string.h>
#include <strings.h>

/* Of a name or an IPv4 address. */
static size_t without_port(const char *host, size_t n)
{
    const char *colon = memchr(host, ':', n);
    return colon ? (size_t)(colon - host) : n;
}

/* An IPv4 address needs no closer look: a name in a URL whose last label is a number is none to browsers. */
bool http_host_is_local(const char *host, size_t n)
{
    bool is_ipv6 = n >= 4 && host[0] == '[';
    if (is_ipv6)
        return true;
    size_t name_bytes = without_port(host, n);
    size_t n_digits = 0;
    while (n_digits < name_bytes &&
           ((host[n_digits] >= '0' && host[n_digits] <= '9') || host[n_digits] == '.'))
        n_digits++;
    return name_bytes > 0 &&
           (n_digits == name_bytes ||
            (name_bytes == strlen("localhost") && strncasecmp(host, "localhost", name_bytes) == 0));
}

bool http_host_is_loopback(const char *host, size_t n)
{
    if (n > 0 && host[0] == '[')
        return n >= 5 && memcmp(host, "[::1]", 5) == 0 && (n == 5 || host[5] == ':');
    const bool is_address = n > 0 && host[0] >= '0' && host[0] <= '9';
    return http_host_is_local(host, n) && (!is_address || (n > 4 && memcmp(host, "127.", 4) == 0));
}

bool http_host_is_named(const char *host, size_t n, const char *names)
{
    const size_t name_bytes = without_port(host, n);
    if (strcmp(names, "*") == 0)
        return true;
    while (*names) {
        names += strspn(names, ", ");
        const size_t bytes = strcspn(names, ", ");
        if (bytes > 0 && bytes == name_bytes && strncasecmp(names, host, bytes) == 0)
            return true;
        names += bytes;
    }
    return false;
}

bool http_host_is_one_of(const char *host, size_t n, const char *names)
{
    return http_host_is_local(host, n) || http_host_is_named(host, n, names);
}
