#include "kvtransfer/transport/peer_list.h"

#include <assert.h>
#include <stdlib.h>

enum status peer_list_add(struct peer_list *list, struct transport *transport, uint64_t incarnation,
                          size_t bytes, struct transport_peer **peer_out)
{
    assert(bytes >= sizeof **peer_out && list->n <= list->n_max);
    if (list->n == list->n_max)
        return STATUS_QUEUE_FULL;
    struct transport_peer *peer = calloc(1, bytes);
    if (!peer)
        return STATUS_NO_MEMORY;
    peer->transport = transport;
    peer->incarnation = incarnation;
    peer->next = list->first;
    list->first = peer;
    list->n++;
    *peer_out = peer;
    return STATUS_OK;
}

static struct transport_peer *find_admitted(const struct peer_list *list, uint64_t incarnation)
{
    struct transport_peer *peer = list->first;
    while (peer && (!peer->is_admitted || peer->is_closing || peer->incarnation != incarnation))
        peer = peer->next;
    return peer;
}

struct transport_peer *peer_list_reader(const struct peer_list *list,
                                        const struct transport_source *source, uint64_t incarnation)
{
    struct transport_peer *peer = find_admitted(list, incarnation);
    if (peer || !source->refresh)
        return peer;
    source->refresh(source->arg);
    return find_admitted(list, incarnation);
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
