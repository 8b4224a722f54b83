/*
 * router_core_options - the options of a router core.
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
    uint32_t prompt_tokens_max; /* of one request */
    uint32_t block_tokens;      /* of remembered prefixes; best equal to the workers' */
    struct prefix_key prefix_key;
    bool local_prefill; /* a generation worker may compute prompts itself */
    uint32_t wait_max;  /* 0: requests that cannot be placed are refused */
    uint64_t wait_limit_ns;
};

/* They run inside the core's functions, and must not call functions of the core that change it: the
 * calls that they start answer later. payload is passed through from router_core_tokens and _ended. */
struct router_core_ops {
    void *arg;
    /* The address is "" without a context worker; valid during the call. router_core_ended follows
     * exactly once, also after cancel. */
    void (*start_decode)(void *arg, void *stream, uint64_t attempt, const char *generation_worker,
                         const char *context_worker);
    void (*cancel_decode)(void *arg, uint64_t attempt);
    /* The ended call was refused without room: it does not count as an attempt. */
    void (*refused)(void *arg, void *stream);
    void (*tokens)(void *arg, void *stream, const void *payload);
    void (*finish)(void *arg, void *stream, enum status status, const char *sentence,
                   const void *payload);
};

struct router_core_stats {
    uint32_t requests, waiting; /* requests includes waiting */
    uint64_t waiting_tokens;    /* of the waiting prompts */
    uint64_t placed;            /* started calls, with refused ones */
    uint64_t retried, waited, finished;
    uint64_t refused; /* calls that were refused without room */
    uint64_t prefix_hit_tokens, prefix_query_tokens;
    uint64_t placed_by_prefix, placed_by_load, placed_without_context;
};
