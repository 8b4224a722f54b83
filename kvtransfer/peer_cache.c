#include "kvtransfer/peer_cache.h"

#include "base/log/log.h"
#include "base/secret.h"
#include "kvtransfer/transport/host_address.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum status peer_cache_init(struct peer_cache *cache, struct transport *transport,
                            uint32_t peers_max)
{
    cache->transport = transport;
    cache->peers_max = peers_max;
    cache->places = calloc(2 * (size_t)peers_max, sizeof *cache->places);
    return cache->places ? STATUS_OK : STATUS_NO_MEMORY;
}

void peer_cache_finish(struct peer_cache *cache)
{
    if (cache->places) /* it has secrets */
        secret_wipe(cache->places, 2 * (size_t)cache->peers_max * sizeof *cache->places);
    free(cache->places);
    cache->places = NULL;
}

/* ---- closing ---- */

static void on_peer_closed(void *arg)
{
    struct cached_peer *peer = arg;
    struct peer_cache *cache = peer->cache;
    assert(peer->state == PEER_CLOSING && peer->n_outstanding == 0);
    cache->on_closed(cache->arg, peer);
    *peer = (struct cached_peer){0};
}

static void close_peer(struct cached_peer *peer)
{
    struct peer_cache *cache = peer->cache;
    assert(peer->state == PEER_OPEN);
    peer->state = PEER_CLOSING;
    peer->is_lost = false;
    cache->n_open--;
    cache->on_closing(cache->arg, peer);
    cache->transport->ops->peer_close(peer->peer, on_peer_closed, peer);
}

void peer_cache_mark_lost(struct cached_peer *peer)
{
    if (peer->state != PEER_OPEN)
        return;
    peer->is_lost = true;
    peer->cache->any_lost = true;
}

void peer_cache_close_lost(struct peer_cache *cache)
{
    if (!cache->any_lost)
        return;
    cache->any_lost = false;
    for (uint32_t i = 0; i < 2 * cache->peers_max; i++) {
        struct cached_peer *peer = &cache->places[i];
        if (peer->state == PEER_OPEN && peer->is_lost) {
            log_event(LOG_WARN, NULL, "peer lost",
                      LOG_HEX("incarnation", peer->address.incarnation));
            close_peer(peer);
        }
    }
}

void peer_cache_drop(struct peer_cache *cache, uint64_t incarnation)
{
    for (uint32_t i = 0; i < 2 * cache->peers_max; i++)
        if (cache->places[i].state == PEER_OPEN &&
            cache->places[i].address.incarnation == incarnation)
            close_peer(&cache->places[i]);
}

void peer_cache_drop_all(struct peer_cache *cache)
{
    for (uint32_t i = 0; i < 2 * cache->peers_max; i++)
        if (cache->places[i].state == PEER_OPEN)
            close_peer(&cache->places[i]);
}

/* ---- finding ---- */

/* Whether two addresses name the same place; pieces_max and pool_base do not count. */
static bool is_same_place(const struct transport_address *a, const struct transport_address *b)
{
    if (a->worker_bytes != b->worker_bytes || a->pool_key_bytes != b->pool_key_bytes ||
        a->n_hosts != b->n_hosts || a->secret_bytes != b->secret_bytes)
        return false;
    for (uint32_t i = 0; i < a->n_hosts; i++)
        if (!host_address_equals(&a->hosts[i], &b->hosts[i]))
            return false;
    return memcmp(a->worker, b->worker, a->worker_bytes) == 0 &&
           memcmp(a->pool_key, b->pool_key, a->pool_key_bytes) == 0 &&
           memcmp(a->secret, b->secret, a->secret_bytes) == 0;
}

/* Finds the connected peer of that incarnation and address, else a free place, else NULL. It makes room by closing the
 * peer that has had no holder for the longest time. */
static struct cached_peer *find_place(struct peer_cache *cache,
                                      const struct transport_address *address)
{
    struct cached_peer *place = NULL, *oldest = NULL;
    for (uint32_t i = 0; i < 2 * cache->peers_max; i++) {
        struct cached_peer *peer = &cache->places[i];
        if (peer->state == PEER_OPEN && peer->peer->is_failed)
            peer_cache_mark_lost(peer);
        if (peer->state == PEER_OPEN && !peer->is_lost &&
            peer->address.incarnation == address->incarnation &&
            is_same_place(&peer->address, address))
            return peer;
        if (peer->state == PEER_FREE)
            place = peer;
        if (peer->state == PEER_OPEN && peer->n_holders == 0 &&
            (!oldest || peer->last_used < oldest->last_used))
            oldest = peer;
    }
    if (cache->n_open < cache->peers_max)
        return place;
    if (!oldest || !place)
        return NULL;
    close_peer(oldest);
    return place;
}

enum status peer_cache_acquire(struct peer_cache *cache, const struct transport_address *address,
                               struct cached_peer **peer_out)
{
    struct cached_peer *peer = find_place(cache, address);
    if (!peer)
        return STATUS_QUEUE_FULL;
    if (peer->state == PEER_FREE) {
        TRY(cache->transport->ops->connect(cache->transport, address, &peer->peer));
        peer->state = PEER_OPEN;
        peer->address = *address;
        peer->pieces_max = address->pieces_max ? address->pieces_max : 1;
        peer->cache = cache;
        cache->n_open++;
    }
    peer->n_holders++;
    peer->last_used = ++cache->clock;
    *peer_out = peer;
    return STATUS_OK;
}

void peer_cache_release(struct cached_peer *peer)
{
    assert(peer->n_holders > 0);
    peer->n_holders--;
}
