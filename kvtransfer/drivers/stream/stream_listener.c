#include "kvtransfer/drivers/stream/stream_listener.h"

#include "base/log/log.h"
#include "kvtransfer/drivers/stream/stream_connection.h"
#include "kvtransfer/transport/data_port.h"
#include "kvtransfer/transport/socket_owner.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ROUND_ACCEPTS = 16, BACKLOG = 128 };

#define SOCKET_NAME "kv"

/* ---- opening ---- */

static bool watch(struct stream_transport *transport, uint32_t index)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = EVENT_LISTENER | index};
    return epoll_ctl(transport->epoll_fd, EPOLL_CTL_ADD, transport->listeners[index].fd, &event) ==
           0;
}

static enum status open_unix(struct stream_transport *transport, struct error *error)
{
    struct sockaddr_un *path = &transport->path;
    TRY(shm_folder_open(&transport->folder, error));
    path->sun_family = AF_UNIX;
    snprintf(path->sun_path, sizeof path->sun_path, "%s/" SOCKET_NAME, transport->folder.path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return error_set(error, STATUS_IO_FAILED, "no socket: %m");
    transport->listeners[transport->n_listeners++] = (struct stream_listener){.fd = fd};
    if (bind(fd, (const struct sockaddr *)(const void *)path, sizeof *path) != 0 ||
        listen(fd, BACKLOG) != 0)
        return error_set(error, STATUS_IO_FAILED, "no socket at %s: %m", path->sun_path);
    return STATUS_OK;
}

static enum status open_tcp(struct stream_transport *transport,
                            const struct stream_options *options, struct error *error)
{
    const struct data_port port = {options->net_devices, options->port_range};
    uint32_t n;
    TRY(data_port_hosts(&port, transport->hosts, &n, error));
    assert(n >= 1 && n <= HOST_ADDRESSES_MAX && transport->n_listeners == 0);
    for (uint32_t i = 0; i < n; i++) {
        struct stream_listener *listener = &transport->listeners[i];
        TRY(data_port_listen(&port, &transport->hosts[i], &listener->fd, &listener->port, error));
        transport->n_listeners++;
    }
    return STATUS_OK;
}

enum status stream_listener_open(struct stream_transport *transport,
                                 const struct stream_options *options, struct error *error)
{
    TRY(transport->driver == STREAM_UNIX ? open_unix(transport, error)
                                         : open_tcp(transport, options, error));
    transport->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    for (uint32_t i = 0; i < transport->n_listeners; i++)
        if (!watch(transport, i))
            return error_set(error, STATUS_IO_FAILED, "epoll: %m");
    return STATUS_OK;
}

void stream_listener_close(struct stream_transport *transport)
{
    for (uint32_t i = 0; i < transport->n_listeners; i++)
        close(transport->listeners[i].fd);
    transport->n_listeners = 0;
    if (transport->spare_fd >= 0)
        close(transport->spare_fd);
    shm_folder_close(&transport->folder);
}

/* ---- arriving ---- */

/* No descriptor is left. The spare one accepts and closes the connections that wait; others become free with time. */
static void go_deaf(struct stream_transport *transport, int fd)
{
    log_warn("data port: no descriptor for a connection");
    if (transport->spare_fd >= 0) {
        close(transport->spare_fd);
        int refused = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
        if (refused >= 0) {
            close(refused);
            atomic_fetch_add(&transport->base.port.refused[PORT_RESOURCES], 1);
        }
        transport->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
    for (uint32_t i = 0; i < transport->n_listeners; i++)
        epoll_ctl(transport->epoll_fd, EPOLL_CTL_DEL, transport->listeners[i].fd, NULL);
    transport->is_deaf = true;
}

void stream_listener_retry(struct stream_transport *transport)
{
    if (!transport->is_deaf)
        return;
    transport->is_deaf = false;
    for (uint32_t i = 0; i < transport->n_listeners; i++)
        transport->is_deaf |= !watch(transport, i);
}

static void make_room(struct stream_transport *transport)
{
    struct stream_connection *oldest = NULL;
    if (transport->base.port.n_unproven < transport->unproven_max)
        return;
    for (uint32_t i = 0; i < transport->connections_max; i++) {
        struct stream_connection *connection = &transport->connections[i];
        if (connection->is_accepted &&
            (connection->state == CONNECTION_SHAKING || connection->state == CONNECTION_GREETED) &&
            (!oldest || connection->since_ns < oldest->since_ns))
            oldest = connection;
    }
    assert(oldest && "so many are unproven");
    oldest->why = PORT_UNPROVEN_LIMIT;
    stream_connection_lose(oldest);
}

void stream_listener_accept(struct stream_transport *transport, uint32_t index)
{
    assert(index < transport->n_listeners);
    int listening = transport->listeners[index].fd;
    for (int i = 0; i < ROUND_ACCEPTS; i++) {
        int fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM))
            go_deaf(transport, listening);
        if (fd < 0)
            return;
        if (transport->driver == STREAM_UNIX && !socket_owner_is_us(fd)) {
            atomic_fetch_add(&transport->base.port.refused[PORT_PROOF], 1);
            close(fd);
            continue;
        }
        make_room(transport);
        if (!stream_connection_accept(transport, fd))
            log_debug("data port: no place for a connection");
    }
}
