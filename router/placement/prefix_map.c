#include "router/placement/prefix_map.h"

#include <assert.h>
#include <stdlib.h>

#define NONE UINT32_MAX

struct entry {
    struct prefix_hash hash;
    struct prefix_place place; /* both PREFIX_MAP_NOBODY: the entry is free */
    uint32_t next_in_bucket;
    uint32_t younger, older; /* by last use */
};

struct prefix_map {
    uint32_t entries_max, n; /* n: in use */
    uint32_t n_taken;        /* entries that were ever used */
    uint32_t first_free;     /* list of freed entries, by next_in_bucket */
    uint32_t bucket_mask;    /* buckets - 1, a power of two */
    uint32_t youngest, oldest;
    struct entry *entries; /* [entries_max] */
    uint32_t *buckets;     /* [bucket_mask + 1] */
};

enum status prefix_map_create(uint32_t entries_max, struct prefix_map **map_out)
{
    if (entries_max == 0 || entries_max > UINT32_MAX / 4)
        return STATUS_INVALID_ARGUMENT;
    struct prefix_map *map = calloc(1, sizeof *map);
    if (!map)
        return STATUS_NO_MEMORY;
    uint32_t n_buckets = 1;
    while (n_buckets < entries_max)
        n_buckets *= 2;
    map->entries_max = entries_max;
    map->bucket_mask = n_buckets - 1;
    map->youngest = map->oldest = map->first_free = NONE;
    map->entries = calloc(entries_max, sizeof *map->entries);
    map->buckets = calloc(n_buckets, sizeof *map->buckets);
    if (!map->entries || !map->buckets) {
        prefix_map_destroy(map);
        return STATUS_NO_MEMORY;
    }
    for (uint32_t i = 0; i < n_buckets; i++)
        map->buckets[i] = NONE;
    *map_out = map;
    return STATUS_OK;
}

void prefix_map_destroy(struct prefix_map *map)
{
    if (!map)
        return;
    free(map->entries);
    free(map->buckets);
    free(map);
}

static bool is_free(const struct prefix_place *place)
{
    return place->generation_worker == PREFIX_MAP_NOBODY &&
           place->context_worker == PREFIX_MAP_NOBODY;
}

static uint32_t *bucket_of(const struct prefix_map *map, const struct prefix_hash *hash)
{
    return &map->buckets[(uint32_t)hash->lo & map->bucket_mask];
}

static uint32_t find(const struct prefix_map *map, const struct prefix_hash *hash)
{
    uint32_t i = *bucket_of(map, hash);
    while (i != NONE &&
           (map->entries[i].hash.lo != hash->lo || map->entries[i].hash.hi != hash->hi))
        i = map->entries[i].next_in_bucket;
    return i;
}

bool prefix_map_find(const struct prefix_map *map, const struct prefix_hash *hash,
                     struct prefix_place *place_out)
{
    uint32_t i = find(map, hash);
    if (i == NONE)
        return false;
    *place_out = map->entries[i].place;
    return true;
}

static void unlink_use(struct prefix_map *map, uint32_t i)
{
    struct entry *entry = &map->entries[i];
    assert(entry->younger != NONE || map->youngest == i);
    assert(entry->older != NONE || map->oldest == i);
    *(entry->younger == NONE ? &map->youngest : &map->entries[entry->younger].older) = entry->older;
    *(entry->older == NONE ? &map->oldest : &map->entries[entry->older].younger) = entry->younger;
}

static void link_youngest(struct prefix_map *map, uint32_t i)
{
    map->entries[i].younger = NONE;
    map->entries[i].older = map->youngest;
    *(map->youngest == NONE ? &map->oldest : &map->entries[map->youngest].younger) = i;
    map->youngest = i;
}

static void unlink_bucket(struct prefix_map *map, uint32_t i)
{
    uint32_t *link = bucket_of(map, &map->entries[i].hash);
    while (*link != i) {
        assert(*link != NONE && "an entry is in the bucket of its hash");
        link = &map->entries[*link].next_in_bucket;
    }
    *link = map->entries[i].next_in_bucket;
}

/* Removes the entry from its bucket and from the list. */
static void unlink_entry(struct prefix_map *map, uint32_t i)
{
    assert(map->n > 0);
    unlink_use(map, i);
    unlink_bucket(map, i);
    map->n--;
}

/* An unused entry, or the oldest one. */
static uint32_t take_entry(struct prefix_map *map)
{
    uint32_t i = map->first_free;
    if (i != NONE) {
        map->first_free = map->entries[i].next_in_bucket;
    } else if (map->n_taken < map->entries_max) {
        i = map->n_taken++;
    } else {
        i = map->oldest;
        assert(i != NONE && map->n == map->entries_max);
        unlink_entry(map, i);
    }
    map->n++;
    assert(map->n <= map->n_taken && map->n_taken <= map->entries_max);
    return i;
}

void prefix_map_put(struct prefix_map *map, const struct prefix_hash *hash,
                    const struct prefix_place *place)
{
    assert(!is_free(place) && "it would be found nowhere, and never freed");
    uint32_t i = find(map, hash);
    if (i != NONE) {
        unlink_use(map, i);
    } else {
        i = take_entry(map);
        uint32_t *bucket = bucket_of(map, hash);
        map->entries[i].hash = *hash;
        map->entries[i].next_in_bucket = *bucket;
        *bucket = i;
    }
    map->entries[i].place = *place;
    link_youngest(map, i);
}

static void forget_in(struct prefix_map *map, uint32_t i, uint32_t worker)
{
    struct prefix_place *place = &map->entries[i].place;
    if (place->generation_worker == worker)
        place->generation_worker = PREFIX_MAP_NOBODY;
    if (place->context_worker == worker)
        place->context_worker = PREFIX_MAP_NOBODY;
    if (!is_free(place))
        return;
    unlink_entry(map, i);
    map->entries[i].next_in_bucket = map->first_free;
    map->first_free = i;
}

void prefix_map_forget(struct prefix_map *map, uint32_t worker)
{
    assert(worker != PREFIX_MAP_NOBODY);
    for (uint32_t i = 0; i < map->n_taken; i++)
        if (!is_free(&map->entries[i].place))
            forget_in(map, i, worker);
}

uint32_t prefix_map_count(const struct prefix_map *map)
{
    return map->n;
}
