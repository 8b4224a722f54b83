/*
 * tier_disk - the disk under a simulated worker's tier: in memory, with faults from a seed, and it outlives the worker.
 *
 * A write may find it full, a read may find a block damaged or gone. It never gives bytes that were not written: that files do
 * not is shown by tests/kvtier.
 */
#pragma once

#include "kvtier/block_store.h"

struct tier_disk;

struct tier_disk *tier_disk_create(uint64_t seed, uint32_t blocks_max, size_t block_bytes);
void tier_disk_destroy(struct tier_disk *disk); /* NULL is fine */
/* The key of its folder. */
struct prefix_key tier_disk_key(const struct tier_disk *disk);
/* How long its next operation takes. */
uint64_t tier_disk_delay_ns(struct tier_disk *disk);

extern const struct block_store_ops TIER_DISK_OPS;
