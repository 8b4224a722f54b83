/*
 * worker_client_options - what the clients of a router's workers are given.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "router/dispatch/dispatch.h"

#include <stdint.h>

struct worker_clients;

struct worker_clients_options {
    struct rpc_client *rpc; /* borrowed, as dispatch, until destroy */
    struct dispatch *dispatch;
    struct router_series *series;
    const char *tokenizer_digest; /* of the router, as in its card */
    uint64_t poll_limit_ns;
};
