/*
 * block_pool - the fixed set of KV blocks that one worker owns.
 *
 * A block holds K and V of block_tokens consecutive tokens for the layers of a group; the geometry describes
 * its bytes. All blocks are one mapping, made at start and registered with the transport once;
 * nothing is allocated afterwards.
 *
 * A block is used by
 *   holders   sequences that read or write it (active),
 *   a cache   the prefix tree's own reference,
 *   pins      transfers whose stream is open (a lease; eviction cannot see pinned blocks),
 *   fences    transport operations that have not completed (quarantine),
 * and is in one state, the first of these that applies:
 *
 *   fences > 0 -> QUARANTINED   pins > 0 -> PINNED   held and arriving -> INBOUND
 *   holders > 0 -> ACTIVE       in the cache -> CACHED   else FREE
 *
 * The counts of all states always add up to n_blocks (asserted at each change). Only FREE blocks can
 * be acquired.
 *
 * The origin of a block says whose KV it holds: the incarnation of the worker from which it was read,
 * or 0 for this worker's own. An acquired block has 0.
 *
 * Thread: the one that created the pool (the engine thread). Other threads may access the bytes of a
 * block during a KV transfer.
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct block_pool;

typedef uint32_t block_id; /* index into the pool: 0 .. n_blocks - 1 */
#define BLOCK_NONE UINT32_MAX

enum block_state {
    BLOCK_FREE,
    BLOCK_ACTIVE,
    BLOCK_CACHED,
    BLOCK_PINNED,
    BLOCK_INBOUND,
    BLOCK_QUARANTINED,
    BLOCK_STATES
};

const char *block_state_name(enum block_state state); /* "free" */

/* INVALID_ARGUMENT: a zero, or a product over the address space. NO_MEMORY: nothing is kept. */
MUST_CHECK enum status block_pool_create(uint32_t n_blocks, size_t block_bytes,
                                         struct block_pool **pool_out);
/* The same in memory that the caller owns and keeps until destroy, such as the transport's shared
 * memory: n_blocks * block_bytes, aligned to 64. */
MUST_CHECK enum status block_pool_create_in(void *memory, uint32_t n_blocks, size_t block_bytes,
                                            struct block_pool **pool_out);
/* From now on scrub is called for a block that becomes FREE, to overwrite its bytes; NULL: for none. */
typedef void (*block_pool_scrubber)(void *bytes, size_t n_bytes);
void block_pool_scrub(struct block_pool *pool, block_pool_scrubber scrub);
/* How bytes of blocks are copied; the copy is there before what is computed or read next. Not set: memcpy. */
typedef void (*block_pool_copier)(void *arg, uint8_t *to, const uint8_t *from, size_t n_bytes);
void block_pool_copy_by(struct block_pool *pool, block_pool_copier copier, void *arg);
/* Copies n blocks to n others, which the caller holds. */
void block_pool_copy(struct block_pool *pool, const block_id *to, const block_id *from, uint32_t n);
/* Every block must be FREE or CACHED. NULL is fine. */
void block_pool_destroy(struct block_pool *pool);

uint32_t block_pool_size(const struct block_pool *pool);
size_t block_pool_block_bytes(const struct block_pool *pool);
uint8_t *block_pool_base(const struct block_pool *pool);
uint8_t *block_pool_data(const struct block_pool *pool, block_id id);
enum block_state block_pool_state(const struct block_pool *pool, block_id id);
uint32_t block_pool_count(const struct block_pool *pool, enum block_state state);

/* Takes n FREE blocks, each with one holder: the caller.
 * NO_BLOCKS: fewer are free; none is taken. */
MUST_CHECK enum status block_pool_acquire(struct block_pool *pool, uint32_t n, block_id *ids_out);
/* Takes these blocks, which are FREE, likewise. It walks all FREE blocks. */
void block_pool_acquire_these(struct block_pool *pool, const block_id *ids, uint32_t n);
/* For acquired blocks of a window: each holder gives one back when its window passes, and takes another one for it. Of the
 * holders of one block all but one take without a block becoming FREE; that one, too, while the block has a fence. */
void block_pool_mark_passing(struct block_pool *pool, const block_id *ids, uint32_t n);
uint32_t block_pool_lent(const struct block_pool *pool); /* how many these holders are */
/* Adds a holder to each block; none may be FREE. */
void block_pool_share(struct block_pool *pool, const block_id *ids, uint32_t n);
/* Removes one holder of each block. */
void block_pool_release(struct block_pool *pool, const block_id *ids, uint32_t n);

/* Marks held blocks as arriving from another worker, and as arrived. */
void block_pool_inbound(struct block_pool *pool, const block_id *ids, uint32_t n);
void block_pool_arrived(struct block_pool *pool, const block_id *ids, uint32_t n);

void block_pool_set_origin(struct block_pool *pool, const block_id *ids, uint32_t n,
                           uint64_t origin);
uint64_t block_pool_origin(const struct block_pool *pool, block_id id);

void block_pool_pin(struct block_pool *pool, const block_id *ids, uint32_t n);
void block_pool_unpin(struct block_pool *pool, const block_id *ids, uint32_t n);

void block_pool_fence(struct block_pool *pool, const block_id *ids, uint32_t n);
void block_pool_unfence(struct block_pool *pool, const block_id *ids, uint32_t n);

/* Adds or drops the reference of the prefix tree. */
void block_pool_cache(struct block_pool *pool, block_id id);
void block_pool_uncache(struct block_pool *pool, block_id id);
bool block_pool_is_cached(const struct block_pool *pool, block_id id);
/* Calls the watcher when a block of the cache enters (true) or leaves state CACHED. One watcher;
 * NULL: none. It runs inside the functions above and must not call them. */
typedef void (*block_pool_watcher)(void *arg, block_id id, bool is_idle);
void block_pool_watch(struct block_pool *pool, block_pool_watcher watcher, void *arg);
