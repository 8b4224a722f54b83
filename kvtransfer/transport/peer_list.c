#include "kvtransfer/transport/peer_list.h"

#include <assert.h>
#include <stdlib.h>

enum status peer_list_add(struct peer_list *list, struct transport *transport, size_t bytes,
                          struct transport_peer **peer_out)
{
    assert(bytes >= sizeof **peer_out && list->n <= list->n_max);
    if (list->n == list->n_max)
        return STATUS_QUEUE_FULL;
    struct transport_peer *peer = calloc(1, bytes);
    if (!peer)
        return STATUS_NO_MEMORY;
    peer->transport = transport;
    peer->next = list->first;
    list->first = peer;
    list->n++;
    *peer_out = peer;
    return STATUS_OK;
}

void peer_list_close(struct peer_list *list, struct transport_peer *peer, transport_done done,
                     void *arg)
{
    assert(!peer->is_closing);
    peer->is_closing = true;
    peer->done = done;
    peer->done_arg = arg;
    list->any_closing = true;
}

void peer_list_remove(struct peer_list *list, struct transport_peer *peer)
{
    struct transport_peer **link = &list->first;
    assert(list->n > 0);
    while (*link != peer)
        link = &(*link)->next;
    *link = peer->next;
    list->n--;
    free(peer);
}

void peer_list_end(struct peer_list *list, struct transport_peer *peer)
{
    transport_done done = peer->done;
    void *arg = peer->done_arg;
    peer_list_remove(list, peer);
    if (done)
        done(arg);
}
