/*
 * prefix_map - which workers have recently computed which prompt prefixes: prefix hash -> a pair of
 * workers.
 *
 * It is only a guess: the workers evict blocks on their own.
 *
 * Bounds: entries_max; a new entry replaces the least recently used one. All memory is allocated at
 * creation.
 * Thread: the router core's.
 */
#pragma once

#include "kvcache/prefix_tree.h"

struct prefix_map;

#define PREFIX_MAP_NOBODY UINT32_MAX

/* PREFIX_MAP_NOBODY: none, or it has left; never for both. */
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
/* Adds or replaces the entry, which counts as used now. */
void prefix_map_put(struct prefix_map *map, const struct prefix_hash *hash,
                    const struct prefix_place *place);
/* Forgets that worker in all entries, and removes entries that name no other worker. Visits every
 * entry: about 5 ns each. */
void prefix_map_forget(struct prefix_map *map, uint32_t worker);
uint32_t prefix_map_count(const struct prefix_map *map);
