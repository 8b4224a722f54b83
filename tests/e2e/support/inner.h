/*
 * inner - calls to control ports, under the cluster key of this user, which roles use unless told otherwise.
 *
 * All functions assert (Criterion) on anything unexpected.
 */
#pragma once

#include "rpc/client/client.h"

#include <stdint.h>

struct inner {
    struct cluster_key *key;
    struct rpc_client *calls;
};

void inner_open(struct inner *inner, struct rpc_runtime *runtime);
/* Channels are closed. */
void inner_close(struct inner *inner);
/* On which the life of who listens there is known. */
struct rpc_channel *inner_channel(struct inner *inner, uint16_t control_port);
