#include "kvtransfer/drivers/stream/stream_address.h"

#include <assert.h>
#include <string.h>

enum { PORT_BYTES = 2 };

static uint16_t get_port(const struct transport_address *address, uint32_t n)
{
    assert((n + 1) * PORT_BYTES <= address->worker_bytes);
    const uint8_t *p = address->worker + (size_t)n * PORT_BYTES;
    return (uint16_t)(p[0] | p[1] << 8);
}

void stream_address_tell(const struct stream_transport *transport,
                         struct transport_address *address_out)
{
    struct transport_address *address = address_out;
    assert(transport->n_listeners > 0 && transport->n_listeners <= HOST_ADDRESSES_MAX);
    if (transport->driver == STREAM_UNIX) {
        address->worker_bytes = (uint32_t)strlen(transport->path.sun_path);
        memcpy(address->worker, transport->path.sun_path, address->worker_bytes);
        return;
    }
    address->n_hosts = transport->n_listeners;
    address->worker_bytes = transport->n_listeners * PORT_BYTES;
    for (uint32_t i = 0; i < transport->n_listeners; i++) {
        address->hosts[i] = transport->hosts[i];
        address->worker[(size_t)i * PORT_BYTES] = (uint8_t)transport->listeners[i].port;
        address->worker[(size_t)i * PORT_BYTES + 1] = (uint8_t)(transport->listeners[i].port >> 8);
    }
    memcpy(address->secret, transport->secret, sizeof address->secret);
    address->secret_bytes = sizeof address->secret;
}

bool stream_address_is_valid(enum stream_driver driver, const struct transport_address *address)
{
    if (driver == STREAM_UNIX)
        return address->worker_bytes > 0 &&
               address->worker_bytes < sizeof((struct sockaddr_un *)0)->sun_path &&
               shm_folder_has((const char *)address->worker, address->worker_bytes);
    return address->n_hosts > 0 && address->n_hosts <= HOST_ADDRESSES_MAX &&
           address->worker_bytes == address->n_hosts * PORT_BYTES &&
           address->secret_bytes == TRANSPORT_SECRET_BYTES;
}

bool stream_address_place(enum stream_driver driver, const struct transport_address *address,
                          uint32_t n, struct sockaddr_storage *place_out, socklen_t *bytes_out)
{
    if (driver == STREAM_TLS) {
        if (n >= address->n_hosts)
            return false;
        *bytes_out = host_address_to_socket(&address->hosts[n], get_port(address, n), place_out);
        return true;
    }
    struct sockaddr_un *path = (struct sockaddr_un *)(void *)place_out;
    assert(address->worker_bytes < sizeof path->sun_path); /* stream_address_is_valid */
    *place_out = (struct sockaddr_storage){.ss_family = AF_UNIX};
    memcpy(path->sun_path, address->worker, address->worker_bytes);
    *bytes_out = sizeof *path;
    return n == 0;
}
