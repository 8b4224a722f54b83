/*
 * peer_list - the peers of a driver, each from its connect or admit until it is quiet behind its close.
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

/* Zeros, but for its transport and incarnation. QUEUE_FULL, NO_MEMORY. */
MUST_CHECK enum status peer_list_add(struct peer_list *list, struct transport *transport,
                                     uint64_t incarnation, size_t bytes,
                                     struct transport_peer **peer_out);
/* The admitted peer of that incarnation. One that is not known yet is asked for at the source. NULL: there is none. */
struct transport_peer *peer_list_reader(const struct peer_list *list,
                                        const struct transport_source *source,
                                        uint64_t incarnation);
/* Marks it: what is said to whoever closes it, is said by end. */
void peer_list_close(struct peer_list *list, struct transport_peer *peer, transport_done done,
                     void *arg);
/* Frees one that is quiet; done is told last, and may add and close others. */
void peer_list_end(struct peer_list *list, struct transport_peer *peer);
/* The same without a word. */
void peer_list_remove(struct peer_list *list, struct transport_peer *peer);
