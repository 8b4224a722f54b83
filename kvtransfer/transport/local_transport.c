#include "kvtransfer/transport/local_transport.h"

#include "base/wake.h"

#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

enum status local_transport_create(const struct transport_ops *ops,
                                   const struct local_options *options, size_t bytes,
                                   struct local_transport **transport_out, struct error *error)
{
    assert(bytes >= sizeof **transport_out);
    if (options->peers_max == 0 || options->gets_max == 0)
        return error_set(error, STATUS_INVALID_ARGUMENT, "peers_max and gets_max must not be 0");
    struct local_transport *transport = calloc(1, bytes);
    if (!transport)
        return STATUS_NO_MEMORY;
    transport->base.ops = ops;
    transport->incarnation = options->incarnation;
    transport->pieces_max = options->pieces_max;
    transport->peers.n_max = options->peers_max;
    transport->wake_fd = wake_open();
    enum status status = transport->wake_fd < 0
                             ? error_set(error, STATUS_IO_FAILED, "eventfd: %m")
                             : get_table_init(&transport->gets, options->gets_max);
    if (status != STATUS_OK) {
        local_transport_destroy(transport);
        return status;
    }
    *transport_out = transport;
    return STATUS_OK;
}

void local_transport_destroy(struct local_transport *transport)
{
    assert(!transport->peers.first);
    if (transport->wake_fd >= 0)
        close(transport->wake_fd);
    get_table_finish(&transport->gets);
    free(transport);
}

enum status local_get(struct transport_peer *peer, const struct transfer_id *id,
                      const struct piece *pieces, uint32_t n, transport_got got, void *arg)
{
    struct local_transport *transport = local_of(peer->transport);
    struct get *gets[GET_PIECES_MAX];
    assert(!peer->is_closing && !peer->is_admitted);
    if (peer->is_failed)
        return STATUS_PEER_LOST;
    TRY(get_table_take(&transport->gets, &(struct get_call){peer, id, pieces, n, got, arg}, gets));
    for (uint32_t i = 0; i < n; i++)
        get_list_append(&transport->waiting, gets[i]);
    return STATUS_OK;
}

void local_peer_close(struct transport_peer *peer, transport_done done, void *arg)
{
    peer_list_close(&local_of(peer->transport)->peers, peer, done, arg);
}

void local_wake(struct transport *transport)
{
    wake_send(local_of(transport)->wake_fd);
}

void local_address(const struct transport *transport, struct transport_address *address_out)
{
    *address_out = (struct transport_address){.incarnation = local_of(transport)->incarnation,
                                              .pieces_max = local_of(transport)->pieces_max};
}
