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
