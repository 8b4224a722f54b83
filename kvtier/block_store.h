/*
 * block_store - where a tier keeps copies of KV blocks that have left the pool: files (kv_files.h), memory (host_blocks.h).
 *
 * A block is found by the hash of its prefix (prefix_tree.h) and its group of layers. Its parent is the hash of the span
 * before it, zeros for the first one. Its origin is the incarnation whose KV it, or a block before it, came from; 0: none.
 *
 * Bounds: each store has a size; what was used longest ago goes first. No failure is an error of a request: a block that
 * cannot be kept is not kept, and one that cannot be read is missing.
 *
 * Thread: has and count from any; the others on one, the tier's.
 */
#pragma once

#include "kvcache/prefix_tree.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stored_key {
    struct prefix_hash hash;
    uint32_t group;
};

struct stored_block {
    struct stored_key key;
    struct prefix_hash parent;
    uint64_t origin;
};

/* What went wrong with a block; each is logged once and counted. */
#define STORE_FAULT_TABLE(X)                                                                       \
    X(FULL, "full")       /* no room on the disk, or over a limit of the process */                \
    X(IO, "io")           /* any other failure of the system, a removed folder, too */             \
    X(CORRUPT, "corrupt") /* of another length, or the digest is wrong; deleted */                 \
    X(FOREIGN, "foreign") /* of another model, geometry or numerics; deleted */                    \
    X(MISSING, "missing") /* another process has removed it */

enum store_fault {
#define STORE_FAULT_ENUM_(name, text) STORE_##name,
    STORE_FAULT_TABLE(STORE_FAULT_ENUM_)
#undef STORE_FAULT_ENUM_
        STORE_FAULTS
};

/* " for each of 4 workers", or "" for one: behind a size that several share. Returns text_out. */
#define PART_TEXT_BYTES 40
const char *block_store_part_text(uint32_t n_sharers, char text_out[PART_TEXT_BYTES]);

struct store_counts {
    uint64_t n_blocks, bytes;      /* now */
    uint64_t n_removed;            /* to keep the size */
    uint64_t n_read;               /* found and right */
    uint64_t faults[STORE_FAULTS]; /* blocks that were lost by each */
};

struct block_store_ops {
    const char *name; /* "disk", "host" */
    bool (*has)(void *store, const struct stored_key *key);
    /* Keeps a copy of bytes [block_bytes]. NOT_FOUND: it was not kept, and that was counted. */
    enum status (*write)(void *store, const struct stored_block *block, const uint8_t *bytes);
    /* Fills bytes_out [block_bytes], and says the origin. NOT_FOUND: it is not there, or not any more. */
    enum status (*read)(void *store, const struct stored_key *key, uint8_t *bytes_out,
                        uint64_t *origin_out);
    /* Removes all blocks of that origin, */
    void (*drop)(void *store, uint64_t origin);
    /* or all. */
    void (*clear)(void *store);
    void (*count)(void *store, struct store_counts *counts_out);
};

const char *store_fault_name(enum store_fault fault); /* "full" */
