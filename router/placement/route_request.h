/*
 * route_request - a tokenized request to be placed.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "base/standing.h"
#include "router/placement/prefix_map.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* No worker. */
#define NOBODY PREFIX_MAP_NOBODY

struct route_request {
    const uint32_t *token_ids; /* good until finish */
    uint32_t n_tokens;
    uint32_t max_tokens;
    const void *salt; /* good until finish */
    size_t salt_bytes;
    uint64_t deadline_ns; /* DEADLINE_NONE: none */
    struct standing standing;
    uint64_t adapter; /* adapter_id_key; 0: none */
    bool is_reserved; /* a place was reserved for it: it is not refused for want of one */
    uint32_t
        beside; /* the generation worker to prefer, alone: it has the prompt's KV; NOBODY: none */
};
