/*
 * context_peer - the context workers that a generation worker has met, by address.
 *
 * Thread: the owner's mutex (context_client).
 */
#pragma once

#include "process/process_state.h"
#include "rpc/client/client.h"
#include "worker_common/identity_codec.h"

#include <stdbool.h>

enum peer_state { PEER_UNKNOWN, PEER_DESCRIBING, PEER_KNOWN };

struct context_peer {
    char address[ADDRESS_TEXT_MAX]; /* "": this place is free */
    struct rpc_channel *channel;
    enum peer_state state;
    struct worker_identity identity; /* of the last life that was described */
    bool was_described;
    bool is_believed;    /* what it said of itself when it was described has not changed since */
    uint32_t n_users;    /* prefills and calls that point here */
    uint64_t used_at;    /* a count of uses: the least is the longest ago */
    enum status refused; /* while it is not KNOWN: why, OK at first */
    uint64_t ask_at_ns;  /* again, when it is refused */
    char reason[PEER_REASON_MAX];
};

struct context_peers {
    struct context_peer *places; /* [n_max] */
    uint32_t n_max;
    uint64_t n_uses;
};

MUST_CHECK enum status context_peers_init(struct context_peers *peers, uint32_t n_max);
/* Closes every channel. A zeroed one is fine. */
void context_peers_finish(struct context_peers *peers);

/* The peer of that address, met now if need be. QUEUE_FULL: every place has users.
 * INVALID_ARGUMENT: the address is too long. */
MUST_CHECK enum status context_peers_meet(struct context_peers *peers, struct rpc_client *rpc,
                                          const char *address, struct context_peer **peer_out);
/* NULL: not met. */
struct context_peer *context_peers_find(struct context_peers *peers, const char *address);

/* It answered who it is, and cannot be used: not something that passes, as a broken call does. */
bool context_peer_is_refused(const struct context_peer *peer);

/* Wants a Describe before the next prefill. */
void context_peer_forget(struct context_peer *peer, enum status why, const char *reason);
