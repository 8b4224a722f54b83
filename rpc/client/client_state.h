/*
 * client_state - the inside of client: its channels and open calls. Includes gRPC; for rpc/ only.
 *
 * Lock: the client's lock guards both lists and the counts; callbacks run without it.
 */
#pragma once

#include "rpc/auth/credentials.h"
#include "rpc/client/client_options.h"
#include "rpc/runtime/runtime_queue.h"

#include <assert.h>
#include <grpc/grpc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* The known incarnation of the server on a channel. It is counted, as calls outlive the channel. */
struct rpc_life {
    atomic_uint n_holders;
    _Atomic uint64_t number; /* 0: no server has proved itself yet */
};

struct rpc_channel {
    struct rpc_client *client;
    struct rpc_life *life;
    grpc_channel *channel;
    char *address;
    uint32_t roles;
    uint32_t n_opens;
    struct rpc_channel *next;
};

struct rpc_client {
    struct rpc_runtime *runtime;
    struct rpc_client_options options;
    struct channel_credentials *credentials;
    pthread_mutex_t lock; /* guards the members below */
    pthread_cond_t changed;
    struct rpc_channel *channels;
    struct rpc_client_call *calls; /* open calls */
    uint32_t n_calls;              /* call objects, open or ended, until their last release */
};

/* NULL is fine. */
static inline void rpc_life_release(struct rpc_life *life)
{
    assert(!life || atomic_load(&life->n_holders) > 0);
    if (life && atomic_fetch_sub(&life->n_holders, 1) == 1)
        free(life);
}

/* In client_call.c. The caller holds the client's lock. */
void rpc_client_cancel_calls(struct rpc_client *client);
