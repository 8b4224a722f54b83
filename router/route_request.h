/*
 * route_request - a tokenized request to be placed.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "base/standing.h"

#include <stddef.h>
#include <stdint.h>

struct route_request {
    const uint32_t *token_ids; /* good until finish */
    uint32_t n_tokens;
    uint32_t max_tokens;
    const void *salt; /* good until finish */
    size_t salt_bytes;
    uint64_t deadline_ns; /* DEADLINE_NONE: none */
    struct standing standing;
};
