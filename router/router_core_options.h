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
