#include "rpc/relay/listener.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HOST_MAX 256

static enum status fail(const char *address, int reason, struct error *error)
{
    return error_set(error, STATUS_IO_FAILED, "cannot listen on %s: %s", address,
                     reason == EADDRINUSE ? "in use by another process" : strerror(reason));
}

/* Returns the socket, or -errno. */
static int listen_at(struct listener *listener, const struct sockaddr *at, socklen_t n_at)
{
    const int on = 1, off = 0;
    int fd = socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    if (at->sa_family != AF_UNIX)
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (at->sa_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, at, n_at) != 0 || listen(fd, SOMAXCONN) != 0) {
        int reason = errno;
        close(fd);
        return -reason;
    }
    assert(listener->n < LISTENER_SOCKETS_MAX);
    listener->fds[listener->n++] = fd;
    return fd;
}

/* ---- Unix sockets ---- */

/* Removes the file of a Unix socket without a listener. */
static void remove_stale(const struct sockaddr_un *at)
{
    struct stat found;
    if (lstat(at->sun_path, &found) != 0 || !S_ISSOCK(found.st_mode))
        return;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)at, sizeof *at) != 0 &&
        errno == ECONNREFUSED)
        (void)unlink(at->sun_path);
    if (fd >= 0)
        close(fd);
}

static enum status open_unix(struct listener *listener, const char *address, const char *path,
                             struct error *error)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof at.sun_path)
        return error_set(error, STATUS_INVALID_ARGUMENT, "cannot listen on %s: path too long",
                         address);
    memcpy(at.sun_path, path, strlen(path) + 1);
    remove_stale(&at);
    int fd = listen_at(listener, (const struct sockaddr *)&at, sizeof at);
    if (fd < 0)
        return fail(address, -fd, error);
    memcpy(listener->path, at.sun_path, sizeof listener->path);
    return STATUS_OK;
}

/* ---- TCP ---- */

static void set_port(struct sockaddr *at, uint16_t port)
{
    if (at->sa_family == AF_INET)
        ((struct sockaddr_in *)at)->sin_port = htons(port);
    else
        ((struct sockaddr_in6 *)at)->sin6_port = htons(port);
}

static uint16_t port_of(int fd)
{
    /* Both families have the port at the same offset. */
    _Static_assert(offsetof(struct sockaddr_in, sin_port) ==
                       offsetof(struct sockaddr_in6, sin6_port),
                   "sin_port is sin6_port");
    struct sockaddr_in6 at = {.sin6_port = 0};
    socklen_t n_at = sizeof at;
    return getsockname(fd, (struct sockaddr *)&at, &n_at) == 0 ? ntohs(at.sin6_port) : 0;
}

/* Splits address into the host without brackets and the port. */
static enum status split(const char *address, char host_out[HOST_MAX], const char **port_out,
                         struct error *error)
{
    const char *colon = strrchr(address, ':');
    size_t n = colon ? (size_t)(colon - address) : 0;
    if (!colon || n + 1 > HOST_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT, "cannot listen on %.80s: not HOST:PORT",
                         address);
    bool has_brackets = n >= 2 && address[0] == '[' && address[n - 1] == ']';
    snprintf(host_out, HOST_MAX, "%.*s", (int)(has_brackets ? n - 2 : n), address + has_brackets);
    *port_out = colon + 1;
    return STATUS_OK;
}

/* Listens on each address of the name. If the port is 0, all use the port of the first. One address
 * is enough. */
static enum status open_tcp(struct listener *listener, const char *address, struct error *error)
{
    char host[HOST_MAX];
    const char *port;
    TRY(split(address, host, &port, error));
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICSERV | AI_PASSIVE};
    struct addrinfo *found;
    int code = getaddrinfo(host[0] ? host : NULL, port, &hints, &found);
    if (code != 0)
        return error_set(error, STATUS_IO_FAILED, "cannot listen on %s: %s", address,
                         gai_strerror(code));
    int reason = EADDRNOTAVAIL;
    for (struct addrinfo *at = found; at && listener->n < LISTENER_SOCKETS_MAX; at = at->ai_next) {
        if (listener->port)
            set_port(at->ai_addr, listener->port);
        int fd = listen_at(listener, at->ai_addr, at->ai_addrlen);
        if (fd < 0)
            reason = -fd;
        else if (listener->port == 0)
            listener->port = port_of(fd);
    }
    freeaddrinfo(found);
    return listener->n > 0 ? STATUS_OK : fail(address, reason, error);
}

static int open_reserve(void)
{
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

enum status listener_open(struct listener *listener, const char *address, struct error *error)
{
    static const char UNIX[] = "unix:";
    *listener = (struct listener){.reserve = -1};
    if (strncmp(address, UNIX, sizeof UNIX - 1) == 0)
        TRY(open_unix(listener, address, address + sizeof UNIX - 1, error));
    else
        TRY(open_tcp(listener, address, error));
    listener->reserve = open_reserve();
    return STATUS_OK;
}

void listener_close(struct listener *listener)
{
    for (uint32_t i = 0; i < listener->n; i++)
        close(listener->fds[i]);
    if (listener->n > 0 && listener->reserve >= 0)
        close(listener->reserve);
    if (listener->path[0])
        (void)unlink(listener->path);
    listener->n = 0;
    listener->reserve = -1;
    listener->path[0] = '\0';
}

void listener_refuse(int fd)
{
    const struct linger reset = {.l_onoff = 1}; /* so that no TIME_WAIT remains */
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    close(fd);
}

static enum listener_answer spend_reserve(struct listener *listener, int from)
{
    if (listener->reserve >= 0)
        close(listener->reserve);
    int fd = accept4(from, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0)
        listener_refuse(fd);
    listener->reserve = open_reserve();
    return fd >= 0 && listener->reserve >= 0 ? LISTENER_REFUSED : LISTENER_STUCK;
}

enum listener_answer listener_accept(struct listener *listener, uint32_t index, int *fd_out,
                                     struct sockaddr_storage *peer_out)
{
    assert(index < listener->n);
    const int on = 1;
    for (;;) {
        socklen_t n_peer = sizeof *peer_out;
        memset(peer_out, 0, sizeof *peer_out);
        int fd = accept4(listener->fds[index], (struct sockaddr *)peer_out, &n_peer,
                         SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            if (peer_out->ss_family != AF_UNIX)
                (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
            *fd_out = fd;
            return LISTENER_ACCEPTED;
        }
        switch (errno) {
        case EAGAIN:
            return LISTENER_NONE;
        case EMFILE:
        case ENFILE:
            return spend_reserve(listener, listener->fds[index]);
        case ENOBUFS:
        case ENOMEM:
            return LISTENER_STUCK;
        case EBADF:
        case EINVAL:
        case ENOTSOCK:
            return LISTENER_STUCK;
        default: /* errors of a connection that has already ended */
            break;
        }
    }
}
