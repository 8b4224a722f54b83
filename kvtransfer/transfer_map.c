#include "kvtransfer/transfer_map.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum status transfer_map_init(struct transfer_map *map, uint32_t n_max)
{
    assert(n_max > 0 && n_max <= 1u << 30);
    uint32_t n = 4;
    while (n < 2 * n_max)
        n *= 2;
    *map = (struct transfer_map){.mask = n - 1};
    map->slots = malloc(n * sizeof *map->slots);
    map->ids = calloc(n, sizeof *map->ids);
    if (!map->slots || !map->ids) {
        transfer_map_finish(map);
        return STATUS_NO_MEMORY;
    }
    memset(map->slots, 0xff, n * sizeof *map->slots); /* NO_SLOT */
    return STATUS_OK;
}

void transfer_map_finish(struct transfer_map *map)
{
    free(map->slots);
    free(map->ids);
    *map = (struct transfer_map){0};
}

static uint32_t home_of(const struct transfer_map *map, const struct transfer_id *id)
{
    uint32_t hash;
    memcpy(&hash, id->bytes, sizeof hash);
    return hash & map->mask;
}

/* Finds the place of id, or the empty place where it belongs. */
static uint32_t place_of(const struct transfer_map *map, const struct transfer_id *id)
{
    uint32_t place = home_of(map, id);
    while (map->slots[place] != NO_SLOT && memcmp(&map->ids[place], id, sizeof *id) != 0)
        place = (place + 1) & map->mask;
    return place;
}

uint32_t transfer_map_find(const struct transfer_map *map, const struct transfer_id *id)
{
    return map->slots[place_of(map, id)];
}

void transfer_map_add(struct transfer_map *map, const struct transfer_id *id, uint32_t slot)
{
    uint32_t place = place_of(map, id);
    assert(map->slots[place] == NO_SLOT && slot != NO_SLOT && slot <= map->mask / 2);
    map->slots[place] = slot;
    map->ids[place] = *id;
}

void transfer_map_remove(struct transfer_map *map, const struct transfer_id *id)
{
    uint32_t gap = place_of(map, id);
    assert(map->slots[gap] != NO_SLOT);
    for (uint32_t i = (gap + 1) & map->mask; map->slots[i] != NO_SLOT; i = (i + 1) & map->mask) {
        uint32_t home = home_of(map, &map->ids[i]);
        if (((i - home) & map->mask) < ((i - gap) & map->mask))
            continue;
        map->slots[gap] = map->slots[i];
        map->ids[gap] = map->ids[i];
        gap = i;
    }
    map->slots[gap] = NO_SLOT;
}
