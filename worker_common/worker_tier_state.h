/*
 * worker_tier_state - what a worker has of tiers.
 *
 * Thread: as worker_tier.h.
 */
#pragma once

#include "kvtier/host_blocks.h"
#include "kvtier/kv_files.h"
#include "kvtier/kv_tier.h"

struct worker_tier {
    struct kv_tier *tier; /* NULL: none */
    struct host_blocks *host;
    struct kv_files *files;
    /* Of the last worker_tier_tell. */
    struct tier_totals {
        uint64_t host_hits, disk_hits, host_removed, disk_removed;
        uint64_t stored, full, origins, tokens, orders, late, missed, no_room;
        uint64_t faults[STORE_FAULTS];
    } last;
};
