#include "kvtier/stored_index.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct entry {
    struct stored_block block;
    uint32_t previous, next; /* in the list, or next of the unused */
    bool is_used;
};

struct stored_index {
    uint32_t entries_max, n;
    uint32_t n_touched; /* slots below it were used at some time */
    uint32_t unused;    /* a list of those that are free again */
    uint32_t first, last;
    uint32_t places_mask;
    uint32_t *places; /* [places_mask + 1] open addressing; 0: empty, else slot + 1 */
    struct entry *entries;
};

enum status stored_index_create(uint32_t entries_max, struct stored_index **index_out)
{
    assert(entries_max > 0 && entries_max <= STORED_ENTRIES_MAX);
    struct stored_index *index = calloc(1, sizeof *index);
    if (!index)
        return STATUS_NO_MEMORY;
    uint32_t n_places = 4;
    while (n_places < 2 * entries_max)
        n_places *= 2;
    index->entries_max = entries_max;
    index->unused = index->first = index->last = STORED_NONE;
    index->places_mask = n_places - 1;
    index->places = calloc(n_places, sizeof *index->places);
    index->entries = calloc(entries_max, sizeof *index->entries);
    if (!index->places || !index->entries) {
        stored_index_destroy(index);
        return STATUS_NO_MEMORY;
    }
    *index_out = index;
    return STATUS_OK;
}

void stored_index_destroy(struct stored_index *index)
{
    if (!index)
        return;
    free(index->places);
    free(index->entries);
    free(index);
}

uint32_t stored_index_count(const struct stored_index *index)
{
    return index->n;
}

bool stored_index_is_full(const struct stored_index *index)
{
    return index->n == index->entries_max;
}

/* ---- finding ---- */

static bool is_key(const struct stored_key *a, const struct stored_key *b)
{
    return prefix_hash_equal(a->hash, b->hash) && a->group == b->group;
}

static uint32_t home_of(const struct stored_index *index, const struct stored_key *key)
{
    return (uint32_t)(key->hash.lo + key->group * 0x9e3779b97f4a7c15ull) & index->places_mask;
}

/* Its place, or the empty one for it. At most half of the places are used. */
static uint32_t place_of(const struct stored_index *index, const struct stored_key *key)
{
    uint32_t place = home_of(index, key);
    while (index->places[place] != 0 &&
           !is_key(&index->entries[index->places[place] - 1].block.key, key))
        place = (place + 1) & index->places_mask;
    return place;
}

uint32_t stored_index_find(const struct stored_index *index, const struct stored_key *key)
{
    return index->places[place_of(index, key)] - 1; /* 0 - 1 is STORED_NONE */
}

const struct stored_block *stored_index_at(const struct stored_index *index, uint32_t slot)
{
    assert(slot < index->entries_max && index->entries[slot].is_used);
    return &index->entries[slot].block;
}

/* Moves later entries of the run into the gap, so that no search ends too early. */
static void clear_place(struct stored_index *index, uint32_t gap)
{
    const uint32_t mask = index->places_mask;
    for (uint32_t place = (gap + 1) & mask; index->places[place] != 0; place = (place + 1) & mask) {
        const uint32_t home = home_of(index, &index->entries[index->places[place] - 1].block.key);
        if (((place - home) & mask) >= ((place - gap) & mask)) {
            index->places[gap] = index->places[place];
            gap = place;
        }
    }
    index->places[gap] = 0;
}

/* ---- the list ---- */

static void unlink_entry(struct stored_index *index, uint32_t slot)
{
    const struct entry *entry = &index->entries[slot];
    *(entry->previous == STORED_NONE ? &index->first
                                     : &index->entries[entry->previous].next) = entry->next;
    *(entry->next == STORED_NONE ? &index->last
                                 : &index->entries[entry->next].previous) = entry->previous;
}

static void link_last(struct stored_index *index, uint32_t slot)
{
    struct entry *entry = &index->entries[slot];
    entry->previous = index->last;
    entry->next = STORED_NONE;
    *(index->last == STORED_NONE ? &index->first : &index->entries[index->last].next) = slot;
    index->last = slot;
}

uint32_t stored_index_add(struct stored_index *index, const struct stored_block *block)
{
    assert(!stored_index_is_full(index) && stored_index_find(index, &block->key) == STORED_NONE);
    uint32_t slot = index->unused;
    if (slot != STORED_NONE)
        index->unused = index->entries[slot].next;
    else
        slot = index->n_touched++;
    index->entries[slot] = (struct entry){.block = *block, .is_used = true};
    index->places[place_of(index, &block->key)] = slot + 1;
    link_last(index, slot);
    index->n++;
    return slot;
}

void stored_index_use(struct stored_index *index, uint32_t slot)
{
    assert(index->entries[slot].is_used);
    unlink_entry(index, slot);
    link_last(index, slot);
}

void stored_index_remove(struct stored_index *index, uint32_t slot)
{
    struct entry *entry = &index->entries[slot];
    assert(entry->is_used);
    clear_place(index, place_of(index, &entry->block.key));
    unlink_entry(index, slot);
    *entry = (struct entry){.next = index->unused};
    index->unused = slot;
    index->n--;
}

uint32_t stored_index_oldest(const struct stored_index *index)
{
    return index->first;
}

uint32_t stored_index_next(const struct stored_index *index, uint32_t slot)
{
    return index->entries[slot].next;
}
