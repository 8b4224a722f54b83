#include "gen_worker/context_peer.h"

#include "base/utf8.h"
#include "rpc/tls/tls_identity.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum status context_peers_init(struct context_peers *peers, uint32_t n_max)
{
    assert(n_max > 0);
    *peers = (struct context_peers){.n_max = n_max};
    peers->places = calloc(n_max, sizeof *peers->places);
    return peers->places ? STATUS_OK : STATUS_NO_MEMORY;
}

void context_peers_finish(struct context_peers *peers)
{
    for (uint32_t i = 0; peers->places && i < peers->n_max; i++)
        rpc_channel_close(peers->places[i].channel);
    free(peers->places);
    *peers = (struct context_peers){0};
}

struct context_peer *context_peers_find(struct context_peers *peers, const char *address)
{
    for (uint32_t i = 0; i < peers->n_max; i++)
        if (address[0] && strcmp(peers->places[i].address, address) == 0)
            return &peers->places[i];
    return NULL;
}

/* A free slot, or that of the peer that was unused for longest. NULL: all have users. */
static struct context_peer *choose_place(struct context_peers *peers)
{
    struct context_peer *oldest = NULL;
    for (uint32_t i = 0; i < peers->n_max; i++) {
        struct context_peer *place = &peers->places[i];
        if (!place->address[0])
            return place;
        if (place->n_users == 0 && place->state != PEER_DESCRIBING &&
            (!oldest || place->used_at < oldest->used_at))
            oldest = place;
    }
    return oldest;
}

enum status context_peers_meet(struct context_peers *peers, struct rpc_client *rpc,
                               const char *address, struct context_peer **peer_out)
{
    struct context_peer *peer = context_peers_find(peers, address);
    if (!peer) {
        if (!address[0] || strlen(address) >= sizeof peer->address)
            return STATUS_INVALID_ARGUMENT;
        peer = choose_place(peers);
        if (!peer)
            return STATUS_QUEUE_FULL;
        assert(peer->n_users == 0 && "its channel has no call");
        struct rpc_channel *channel;
        TRY(rpc_channel_open_role(rpc, address, TLS_ROLE_BIT(CONTEXT), &channel));
        rpc_channel_close(peer->channel);
        *peer = (struct context_peer){.channel = channel};
        snprintf(peer->address, sizeof peer->address, "%s", address);
    }
    peer->used_at = ++peers->n_uses;
    *peer_out = peer;
    return STATUS_OK;
}

bool context_peer_is_refused(const struct context_peer *peer)
{
    switch (peer->refused) {
    case STATUS_OK:
    case STATUS_QUEUE_FULL:
    case STATUS_SHARE_FULL:
    case STATUS_LOADING:
    case STATUS_DRAINING:
    case STATUS_STALE_PEER:
    case STATUS_PEER_LOST:
    case STATUS_DEVICE_LOST:
    case STATUS_TIMED_OUT:
    case STATUS_CANCELLED:
    case STATUS_NO_MEMORY:
        return false;
    default:
        return true;
    }
}

void context_peer_forget(struct context_peer *peer, enum status why, const char *reason)
{
    assert(why != STATUS_OK && "OK means never refused");
    if (peer->state != PEER_DESCRIBING)
        peer->state = PEER_UNKNOWN;
    peer->refused = why;
    utf8_clean(reason, strlen(reason), peer->reason, sizeof peer->reason);
}
