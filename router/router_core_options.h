/*
 * router_core_options - what a router core is made of.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "kvcache/prefix_tree.h"

#include <stdbool.h>
#include <stdint.h>

struct router_core_options {
    uint32_t workers_max;
    uint32_t requests_max;
    uint32_t attempts_max; /* >= 1 */
    uint32_t prefixes_max;
    uint32_t prompt_tokens_max; /* of a request */
    uint32_t block_tokens;      /* granularity of remembered prefixes; the workers' own is best */
    struct prefix_key prefix_key;
    bool local_prefill; /* a generation worker without a context worker will do */
    uint32_t wait_max;  /* 0: what cannot be placed is refused */
    uint64_t wait_limit_ns;
};

/* Called from within the core's functions, which they must not call but for those that only read: what
 * they start answers later.
 * payload is the caller's of router_core_tokens and _ended, passed through. */
struct router_core_ops {
    void *arg;
    /* The address is "" when no context worker is used; good during the call. router_core_ended
     * follows exactly once, also after cancel. */
    void (*start_decode)(void *arg, void *stream, uint64_t attempt, const char *generation_worker,
                         const char *context_worker);
    void (*cancel_decode)(void *arg, uint64_t attempt);
    /* The call that ended was refused for want of room: it was no attempt. */
    void (*refused)(void *arg, void *stream);
    void (*tokens)(void *arg, void *stream, const void *payload);
    void (*finish)(void *arg, void *stream, enum status status, const char *sentence,
                   const void *payload);
};

struct router_core_stats {
    uint32_t requests, waiting; /* those that wait are among the requests */
    uint64_t waiting_tokens;    /* of their prompts */
    uint64_t placed;            /* calls begun, also those that were refused */
    uint64_t retried, waited, finished;
    uint64_t refused; /* calls, for want of room */
    uint64_t prefix_hit_tokens, prefix_query_tokens;
    uint64_t placed_by_prefix, placed_by_load, placed_without_context;
};
