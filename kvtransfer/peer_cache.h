/*
 * peer_cache - the peers that a receiver is connected to, by incarnation.
 *
 *     FREE --acquire--> OPEN --lost, dropped, or its place is needed--> CLOSING --> FREE
 *
 * The same incarnation at two addresses makes two peers. One of them is not what it claims, and must not be asked
 * for the blocks of the other one.
 *
 * Everything known about a peer is dropped at once. Its holders are told twice: when the closing begins (nothing
 * more may be asked) and when it has ended (nothing of the peer can touch local memory, and the pointer is not
 * valid any more).
 *
 * Bounds: peers_max open peers, and as many closing ones.
 * Thread: the transfer thread.
 */
#pragma once

#include "kvtransfer/transport/transport.h"

#include <stdbool.h>

enum peer_state { PEER_FREE, PEER_OPEN, PEER_CLOSING };

struct cached_peer {
    enum peer_state state;
    bool is_lost; /* to be closed by the next peer_cache_close_lost */
    struct transport_address address;
    uint32_t pieces_max; /* that it takes at a time; one, when it did not say */
    struct transport_peer *peer;
    struct peer_cache *cache;
    uint32_t n_holders;
    uint32_t n_outstanding; /* pieces, counted by the holders: 0 when its closing has ended */
    uint64_t last_used;
};

struct peer_cache {
    struct transport *transport;
    uint32_t peers_max;
    struct cached_peer *places; /* [2 * peers_max] */
    uint32_t n_open;
    bool any_lost;
    uint64_t clock;
    void (*on_closing)(void *arg, struct cached_peer *peer);
    void (*on_closed)(void *arg, struct cached_peer *peer);
    void *arg;
};

/* transport is borrowed. The caller sets the callbacks. */
MUST_CHECK enum status peer_cache_init(struct peer_cache *cache, struct transport *transport,
                                       uint32_t peers_max);
/* Closes nothing. A zeroed cache is fine. */
void peer_cache_finish(struct peer_cache *cache);

/* Connects when that incarnation is not open at that address. QUEUE_FULL: peers_max peers are held, or closing. Other
 * failures: those of connect. */
MUST_CHECK enum status peer_cache_acquire(struct peer_cache *cache,
                                          const struct transport_address *address,
                                          struct cached_peer **peer_out);
void peer_cache_release(struct cached_peer *peer);

/* Nothing, unless it is open. */
void peer_cache_mark_lost(struct cached_peer *peer);
void peer_cache_close_lost(struct peer_cache *cache);
void peer_cache_drop(struct peer_cache *cache, uint64_t incarnation);
void peer_cache_drop_all(struct peer_cache *cache);
