/* prefix_map: bounded; the entry used least recently goes first. */
#include "router/placement/prefix_map.h"

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

Test(prefix_map, what_a_worker_that_left_had_is_gone_and_its_room_is_used_again)
{
    struct prefix_map *map;
    struct prefix_place place;
    cr_assert_eq(prefix_map_create(6, &map), STATUS_OK);
    for (uint32_t i = 0; i < 6; i++) {
        const struct prefix_hash hash = hash_of(i);
        prefix_map_put(map, &hash, &(struct prefix_place){i % 2, i < 4 ? 2 : PREFIX_MAP_NOBODY});
    }
    prefix_map_forget(map, 1);
    cr_assert_eq(prefix_map_count(map), 5, "of 5 nobody else is known");
    for (uint32_t i = 0; i < 4; i++) {
        const struct prefix_hash hash = hash_of(i);
        cr_assert(prefix_map_find(map, &hash, &place));
        cr_assert_eq(place.generation_worker, i % 2 ? PREFIX_MAP_NOBODY : 0);
        cr_assert_eq(place.context_worker, 2);
    }
    prefix_map_forget(map, 2);
    cr_assert_eq(prefix_map_count(map), 3);
    prefix_map_forget(map, 0);
    prefix_map_forget(map, 0);
    cr_assert_eq(prefix_map_count(map), 0);
    for (uint32_t i = 0; i < 20; i++)
        put(map, i, i);
    cr_assert_eq(prefix_map_count(map), 6);
    for (uint32_t i = 14; i < 20; i++)
        cr_assert_eq(find(map, i), i);
    prefix_map_destroy(map);
}
