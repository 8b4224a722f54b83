/*
 * context_client_options - the options of a context_client.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "rpc/client/client.h"
#include "worker_common/identity_codec.h"

struct adapter_set;

struct context_client_options {
    struct rpc_client *rpc;                 /* borrowed, as the others, until destroy */
    struct cluster_key *key;                /* that of rpc; NULL: it has none */
    const struct worker_identity *identity; /* of this worker */
    struct adapter_set *adapters;           /* of this worker; NULL: there are none */
    struct identity_allowance allowed;      /* beside KV like its own */
    uint32_t peers_max;
    uint32_t prefills_max;
    uint64_t describe_limit_ns;
    uint64_t commit_limit_ns;
    bool wants_digests; /* a ready event without them ends the prefill */
};
