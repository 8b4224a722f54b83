#include "cli/client/listener.h"

#include "process/ports/address.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static bool is_refusal(int reason)
{
    return reason == ECONNREFUSED || reason == ENOENT;
}

static int wait_for_answer(int fd)
{
    struct pollfd wait = {.fd = fd, .events = POLLOUT};
    int reason = ETIMEDOUT;
    socklen_t bytes = sizeof reason;
    if (poll(&wait, 1, LISTENER_LIMIT_MS) == 1)
        (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &reason, &bytes);
    return reason;
}

static bool is_refused(const struct sockaddr *address, socklen_t bytes)
{
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return false;
    int reason = connect(fd, address, bytes) == 0 ? 0 : errno;
    if (reason == EINPROGRESS)
        reason = wait_for_answer(fd);
    close(fd);
    return is_refusal(reason);
}

static bool is_path_absent(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t bytes = strlen(path) + 1;
    if (bytes > sizeof address.sun_path)
        return false;
    memcpy(address.sun_path, path, bytes);
    return is_refused((const struct sockaddr *)&address, sizeof address);
}

static bool is_absent(const struct addrinfo *found)
{
    bool is_absent = true;
    assert(found && "of no address nothing is known");
    for (const struct addrinfo *at = found; at && is_absent; at = at->ai_next)
        is_absent = is_refused(at->ai_addr, at->ai_addrlen);
    return is_absent;
}

enum status listener_address(const char *server, char address_out[ADDRESS_TEXT_MAX],
                             struct error *error)
{
    struct address address;
    struct error why = {""};
    if (address_parse(server, &address, &why) != STATUS_OK)
        return error_set(error, STATUS_INVALID_ARGUMENT, "--server: %s", why.text);
    address_format(&address, address_out);
    return STATUS_OK;
}

void listener_explain(const char *text, const char *words, struct error *error_out)
{
    struct address address;
    struct addrinfo *found = NULL;
    char port[8];
    int code = 0;
    bool is_nobody = false;
    const char *hint = strstr(words, "Socket closed") ? " (does it want --tls?)" : "";
    error_write(error_out, "no kvferry server answers at %s: %s%s", text, words, hint);
    if (address_parse(text, &address, NULL) != STATUS_OK)
        return;
    snprintf(port, sizeof port, "%u", address.port);
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    assert(!address.is_unix || strncmp(address.host, "unix:", strlen("unix:")) == 0);
    if (address.is_unix)
        is_nobody = is_path_absent(address.host + strlen("unix:"));
    else if ((code = getaddrinfo(address.host, port, &hints, &found)) == 0)
        is_nobody = is_absent(found);
    if (code != 0)
        error_write(error_out, "--server: %s: %s", address.host, gai_strerror(code));
    else if (is_nobody)
        error_write(error_out,
                    "nothing listens at %s: is the server running? `kvferry serve MODEL` starts it",
                    text);
    if (found)
        freeaddrinfo(found);
}
