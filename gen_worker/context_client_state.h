/*
 * context_client_state - what a client of context workers holds: its peers, its prefills, and the calls under way.
 *
 * Lock: the client's, for all of it.
 */
#pragma once

#include "gen_worker/context_client_options.h"
#include "gen_worker/context_peer.h"
#include "gen_worker/prefill_codec.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct context_client {
    struct context_client_options options;
    struct gen_engine *engine;
    pthread_mutex_t mutex;
    struct context_peers peers;
    struct context_prefill **prefills; /* [prefills_max], NULL: free */
    struct prefill_scratch scratch;    /* for one event */
    /* The end of each description. OK: the peer is known; sentence is "" when the status says all. */
    void (*on_described)(struct context_client *client, struct context_peer *peer,
                         enum status status, const char *sentence);
};

/* One prefill, from start_prefill to prefill_end. It is a user of its peer. */
struct context_prefill {
    struct context_client *client;
    struct context_peer *peer;
    struct rpc_client_call *call; /* NULL while the peer is being described */
    uint64_t id;
    uint64_t incarnation; /* the peer's, when it was asked */
    enum status lost;     /* not OK: an event could not be passed to the engine */
    bool is_described;    /* the engine knows who computes it: events have come */
    bool is_repeated;
    bool is_cancelled;
    struct request_origin origin;
    struct prefill_message *request;
};

/* One GetState, Describe or Commit. It is a user of its peer. */
struct context_unary {
    struct context_client *client;
    struct context_peer *peer;
    uint64_t prefill; /* Commit's */
    /* Describe's answer. */
    enum status status;
    struct error error;
    struct worker_identity identity;
};

/* Held while a call is started. A callback may run on rpc's thread before the start has returned; it waits here until the call
 * is stored. */
void context_client_lock(struct context_client *client);
void context_client_unlock(struct context_client *client);

/* Adds a user to the peer; its owner frees it. NULL: no memory. */
struct context_unary *context_unary_create(struct context_client *client,
                                           struct context_peer *peer);
