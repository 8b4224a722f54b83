/* prefix_map: bounded; the entry used least recently goes first. */
#include "router/prefix_map.h"

#include <criterion/criterion.h>

static struct prefix_hash hash_of(uint64_t n)
{
    return (struct prefix_hash){n & 1, n}; /* many in one bucket */
}

static void put(struct prefix_map *map, uint64_t n, uint32_t worker)
{
    const struct prefix_hash hash = hash_of(n);
    prefix_map_put(map, &hash, &(struct prefix_place){worker, PREFIX_MAP_NOBODY});
}

static uint32_t find(const struct prefix_map *map, uint64_t n)
{
    const struct prefix_hash hash = hash_of(n);
    struct prefix_place place;
    return prefix_map_find(map, &hash, &place) ? place.generation_worker : PREFIX_MAP_NOBODY;
}

Test(prefix_map, forgets_the_least_recently_used)
{
    struct prefix_map *map;
    cr_assert_eq(prefix_map_create(3, &map), STATUS_OK);
    for (uint32_t i = 0; i < 3; i++)
        put(map, i, i);
    put(map, 0, 7);
    put(map, 3, 3);
    cr_assert_eq(prefix_map_count(map), 3);
    cr_assert_eq(find(map, 0), 7);
    cr_assert_eq(find(map, 1), PREFIX_MAP_NOBODY);
    cr_assert_eq(find(map, 2), 2);
    cr_assert_eq(find(map, 3), 3);
    prefix_map_destroy(map);
}

Test(prefix_map, keeps_the_last_of_many)
{
    struct prefix_map *map;
    cr_assert_eq(prefix_map_create(10, &map), STATUS_OK);
    for (uint32_t i = 0; i < 1000; i++)
        put(map, i * 7 % 31, i);
    for (uint32_t i = 990; i < 1000; i++)
        cr_assert_eq(find(map, i * 7 % 31), i);
    cr_assert_eq(prefix_map_count(map), 10);
    prefix_map_destroy(map);
    cr_assert_eq(prefix_map_create(0, &map), STATUS_INVALID_ARGUMENT);
}
