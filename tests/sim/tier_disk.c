#include "tests/sim/tier_disk.h"

#include "base/clock.h"
#include "base/random.h"
#include "kvtier/stored_index.h"

#include <stdlib.h>
#include <string.h>

struct tier_disk {
    struct random random;
    struct prefix_key key;
    uint32_t fault_in; /* an operation fails once in so many; 0: none does */
    bool is_slow;
    size_t block_bytes;
    struct stored_index *index;
    uint8_t *bytes; /* by slot */
    struct store_counts counts;
};

struct tier_disk *tier_disk_create(uint64_t seed, uint32_t blocks_max, size_t block_bytes)
{
    struct tier_disk *disk = calloc(1, sizeof *disk);
    if (!disk || stored_index_create(blocks_max, &disk->index) != STATUS_OK)
        abort();
    random_init(&disk->random, seed);
    for (size_t i = 0; i < sizeof disk->key.bytes; i++)
        disk->key.bytes[i] = (uint8_t)random_below(&disk->random, 256);
    disk->fault_in = seed % 3 == 0 ? 0 : 2 + (uint32_t)(seed % 20);
    disk->is_slow = seed % 5 == 0;
    disk->block_bytes = block_bytes;
    disk->bytes = calloc(blocks_max, block_bytes);
    if (!disk->bytes)
        abort();
    return disk;
}

void tier_disk_destroy(struct tier_disk *disk)
{
    if (!disk)
        return;
    stored_index_destroy(disk->index);
    free(disk->bytes);
    free(disk);
}

struct prefix_key tier_disk_key(const struct tier_disk *disk)
{
    return disk->key;
}

uint64_t tier_disk_delay_ns(struct tier_disk *disk)
{
    return (1 + random_below(&disk->random, disk->is_slow ? 40000 : 300)) * NS_PER_US;
}

static bool fails(struct tier_disk *disk)
{
    return disk->fault_in > 0 && random_below(&disk->random, disk->fault_in) == 0;
}

static uint8_t *bytes_of(const struct tier_disk *disk, uint32_t slot)
{
    return disk->bytes + (size_t)slot * disk->block_bytes;
}

static bool has(void *store, const struct stored_key *key)
{
    return stored_index_find(((struct tier_disk *)store)->index, key) != STORED_NONE;
}

static enum status write_block(void *store, const struct stored_block *block, const uint8_t *bytes)
{
    struct tier_disk *disk = store;
    const uint32_t known = stored_index_find(disk->index, &block->key);
    if (known != STORED_NONE)
        stored_index_remove(disk->index, known);
    if (stored_index_is_full(disk->index))
        stored_index_remove(disk->index, stored_index_oldest(disk->index));
    if (fails(disk)) {
        disk->counts.faults[STORE_FULL]++;
        return STATUS_NOT_FOUND;
    }
    memcpy(bytes_of(disk, stored_index_add(disk->index, block)), bytes, disk->block_bytes);
    return STATUS_OK;
}

static enum status read_block(void *store, const struct stored_key *key, uint8_t *bytes_out,
                              uint64_t *origin_out)
{
    struct tier_disk *disk = store;
    const uint32_t slot = stored_index_find(disk->index, key);
    memset(bytes_out, 0xee, disk->block_bytes); /* as a file that turns out to be damaged */
    if (slot == STORED_NONE)
        return STATUS_NOT_FOUND;
    if (fails(disk)) {
        disk->counts.faults[STORE_CORRUPT]++;
        stored_index_remove(disk->index, slot);
        return STATUS_NOT_FOUND;
    }
    memcpy(bytes_out, bytes_of(disk, slot), disk->block_bytes);
    *origin_out = stored_index_at(disk->index, slot)->origin;
    stored_index_use(disk->index, slot);
    return STATUS_OK;
}

static void drop(void *store, uint64_t origin)
{
    struct tier_disk *disk = store;
    uint32_t slot = stored_index_oldest(disk->index);
    while (slot != STORED_NONE) {
        const uint32_t next = stored_index_next(disk->index, slot);
        if (stored_index_at(disk->index, slot)->origin == origin)
            stored_index_remove(disk->index, slot);
        slot = next;
    }
}

static void clear(void *store)
{
    struct tier_disk *disk = store;
    while (stored_index_count(disk->index) > 0)
        stored_index_remove(disk->index, stored_index_oldest(disk->index));
}

static void count(void *store, struct store_counts *counts_out)
{
    *counts_out = ((struct tier_disk *)store)->counts;
}

const struct block_store_ops TIER_DISK_OPS = {.name = "simulated",
                                              .has = has,
                                              .write = write_block,
                                              .read = read_block,
                                              .drop = drop,
                                              .clear = clear,
                                              .count = count};
