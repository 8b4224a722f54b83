/*
 * transfer_map - maps a transfer id to the number of its slot.
 *
 * The map uses open addressing. Ids are random, so their own bits are the hash. Nothing is allocated after init.
 *
 * Bounds: n_max ids, 0 .. n_max - 1 as slots. Thread: the owner's.
 */
#pragma once

#include "kvtransfer/transport/transport.h"

#include <stdint.h>

#define NO_SLOT UINT32_MAX

struct transfer_map {
    uint32_t mask;
    uint32_t *slots; /* [mask + 1] NO_SLOT: empty */
    struct transfer_id *ids;
};

MUST_CHECK enum status transfer_map_init(struct transfer_map *map, uint32_t n_max);
void transfer_map_finish(struct transfer_map *map); /* a zeroed one is fine */
/* NO_SLOT: unknown. */
uint32_t transfer_map_find(const struct transfer_map *map, const struct transfer_id *id);
/* id must not be there. */
void transfer_map_add(struct transfer_map *map, const struct transfer_id *id, uint32_t slot);
/* id must be there. */
void transfer_map_remove(struct transfer_map *map, const struct transfer_id *id);
