/*
 * dial - a channel to a port of a process on this machine, with a runtime of its own.
 *
 * Asserts (Criterion) on anything unexpected.
 */
#pragma once

#include "rpc/client/client.h"

#include <stdint.h>

struct dial {
    struct rpc_runtime *runtime;
    struct rpc_client *client;
    struct rpc_channel *channel;
};

/* name: of the runtime's threads. */
void dial_open(struct dial *dial, const char *name, uint16_t port);
void dial_close(struct dial *dial);
