/*
 * refused_states - snapshots of a recurrent state that the prefix cache refused when a tier brought them, so that nobody orders them again.
 *
 * A snapshot with an origin (block_pool.h) may stand only below a node of that origin. If the K and V of its prefix were computed here
 * meanwhile, the cache refuses it as long as they stay.
 *
 * Bounds: the last REFUSED_STATES_MAX of them; one that was forgotten is ordered once more.
 *
 * Thread: the engine's.
 */
#pragma once

#include "kvcache/kv_manager.h"

#include <stdbool.h>
#include <stdint.h>

#define REFUSED_STATES_MAX 64u

struct refused_states {
    struct prefix_hash hashes[REFUSED_STATES_MAX];
    uint32_t n, next; /* the oldest is at next, once all are used */
};

void refused_states_add(struct refused_states *states, struct prefix_hash hash);
/* Whether the cache would refuse it again. It is forgotten when the span before it has left the cache. */
bool refused_states_has(struct refused_states *states, const struct kv_manager *manager,
                        uint32_t n_groups, struct prefix_hash hash);
