/*
 * context_peer - the context workers that a generation worker has called, by address.
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
    char address[ADDRESS_TEXT_MAX]; /* "": this slot is free */
    struct rpc_channel *channel;
    enum peer_state state;
    struct worker_identity identity; /* as it was described last */
    bool was_described;
    bool is_believed;    /* no later description has contradicted it */
    uint32_t n_users;    /* prefills and calls that point here */
    uint64_t used_at;    /* in n_uses: the least was used longest ago */
    enum status refused; /* while it is not KNOWN: why. OK at first */
    uint64_t ask_at_ns;  /* describes it again then, when it was refused */
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

/* Finds or adds the peer of that address. QUEUE_FULL: every peer has users. INVALID_ARGUMENT: the address is too long. */
MUST_CHECK enum status context_peers_meet(struct context_peers *peers, struct rpc_client *rpc,
                                          const char *address, struct context_peer **peer_out);
/* NULL: there is none. */
struct context_peer *context_peers_find(struct context_peers *peers, const char *address);

/* It described itself and cannot be used. A broken call is no refusal: that may pass. */
bool context_peer_is_refused(const struct context_peer *peer);

/* It must be described before the next prefill. */
void context_peer_forget(struct context_peer *peer, enum status why, const char *reason);
