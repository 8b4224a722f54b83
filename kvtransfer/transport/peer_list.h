/*
 * peer_list - the peers of a driver, each from its connect or admit until it is closed and quiet.
 *
 * A peer is one allocation that begins with struct transport_peer.
 *
 * Bound: n_max.
 * Thread: the transport's.
 */
#pragma once

#include "kvtransfer/transport/transport.h"

struct peer_list {
    struct transport_peer *first;
    uint32_t n, n_max;
    bool any_closing;
};

/* Adds a peer; all of it but its transport and its incarnation is zero. QUEUE_FULL, NO_MEMORY. */
MUST_CHECK enum status peer_list_add(struct peer_list *list, struct transport *transport,
                                     uint64_t incarnation, size_t bytes,
                                     struct transport_peer **peer_out);
/* Finds the admitted peer of that incarnation. When there is none, the source is asked to admit it. NULL: still none. */
struct transport_peer *peer_list_reader(const struct peer_list *list,
                                        const struct transport_source *source,
                                        uint64_t incarnation);
/* Marks the peer as closing. peer_list_end calls done. */
void peer_list_close(struct peer_list *list, struct transport_peer *peer, transport_done done,
                     void *arg);
/* Removes and frees a quiet peer, then calls done, which may add and close others. */
void peer_list_end(struct peer_list *list, struct transport_peer *peer);
/* Removes and frees a peer. */
void peer_list_remove(struct peer_list *list, struct transport_peer *peer);
