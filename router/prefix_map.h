/*
 * prefix_map - which workers saw which prompt beginnings lately: prefix hash -> a pair of workers.
 *
 * A guess, not a promise: the workers evict as they like.
 *
 * Bounds: entries_max; a new entry takes the place of the one used least recently. All memory is
 * allocated at creation.
 * Thread: the router core's.
 */
#pragma once

#include "kvcache/prefix_tree.h"

struct prefix_map;

#define PREFIX_MAP_NOBODY UINT32_MAX

/* PREFIX_MAP_NOBODY: none, or it has left; never both. */
struct prefix_place {
    uint32_t generation_worker;
    uint32_t context_worker;
};

/* INVALID_ARGUMENT: a zero. NO_MEMORY. */
MUST_CHECK enum status prefix_map_create(uint32_t entries_max, struct prefix_map **map_out);
void prefix_map_destroy(struct prefix_map *map); /* NULL is fine */

/* False: unknown. Does not count as a use. */
bool prefix_map_find(const struct prefix_map *map, const struct prefix_hash *hash,
                     struct prefix_place *place_out);
/* Adds or replaces, and counts as used now. */
void prefix_map_put(struct prefix_map *map, const struct prefix_hash *hash,
                    const struct prefix_place *place);
/* What is known of that worker is gone, and so is what was known of nobody else. Looks at every entry:
 * about 5 ns each. */
void prefix_map_forget(struct prefix_map *map, uint32_t worker);
uint32_t prefix_map_count(const struct prefix_map *map);
