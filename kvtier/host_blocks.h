/*
 * host_blocks - a store in the memory of the host, in front of another one.
 *
 *     write -> memory -> (what was used longest ago, when it is full) -> the next store
 *     read  <- memory, else the next store
 *
 * A block that was read from the next store stays there; one that is read from memory counts as used.
 *
 * Bounds: bytes_max of blocks, in one allocation, made and touched at creation. Thread: as block_store.h.
 */
#pragma once

#include "base/status.h"
#include "kvtier/block_store.h"

struct host_blocks;

struct host_blocks_options {
    uint64_t bytes_max;
    uint32_t n_sharers; /* as in kv_files_options */
    size_t block_bytes;
    const struct block_store_ops *next; /* NULL: none, and what is pushed out is lost */
    void *next_store;                   /* borrowed until destroy */
    bool wipes;                         /* zeros the memory of a block that leaves */
};

/* INVALID_ARGUMENT: bytes_max holds no block, or more than an index takes. With a sentence. */
MUST_CHECK enum status host_blocks_check(const struct host_blocks_options *options,
                                         struct error *error);
/* As host_blocks_check; NO_MEMORY. */
MUST_CHECK enum status host_blocks_create(const struct host_blocks_options *options,
                                          struct error *error, struct host_blocks **blocks_out);
void host_blocks_destroy(struct host_blocks *blocks); /* NULL is fine */
/* Of memory alone; count of the ops adds the next store's faults. */
void host_blocks_count(struct host_blocks *blocks, struct store_counts *counts_out);

extern const struct block_store_ops HOST_BLOCKS_OPS; /* of a struct host_blocks */
