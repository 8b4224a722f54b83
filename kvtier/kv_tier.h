/*
 * kv_tier - what stands between an engine and a store of KV blocks: it takes evicted blocks, and brings back what waiting
 * requests need. An engine never waits for a store.
 *
 *     engine   begin, (copies), end --->  [ stores ]  \
 *              order, cancel         --->  [ orders ]   > work: one read, write or removal at a time (the tier's thread)
 *              take, give            <---  [ pieces ]  /
 *
 * A store: the engine copies a block into memory of the tier, which writes it later; until then it is found there. If that memory is full, because the
 * store is slow, the block is not kept, and counted. Reads come before writes, because requests wait for them.
 *
 * An order is a list of keys, which are read in this order. Each block comes as a piece; the first one that is missing ends
 * the order. What drop and clear remove is never handed out afterwards: they end all orders, and are done before anything
 * else is read or written.
 *
 * Bounds: stores_max blocks that wait to be written, KV_TIER_ORDERS_MAX orders of keys_max keys, pieces_max blocks that were
 * read and not given back. All memory is made at creation; a drop allocates (if it cannot, the store is cleared).
 *
 * Thread: create, start and destroy main's; the others the engine's, but for work, the tier's, and count, any.
 */
#pragma once

#include "base/status.h"
#include "kvtier/block_store.h"

#define KV_TIER_ORDERS_MAX 4u
#define KV_TIER_END_MS     5000u

struct kv_tier;

struct kv_tier_options {
    const struct block_store_ops *ops;
    void *store; /* borrowed until destroy */
    size_t block_bytes;
    uint32_t stores_max, pieces_max, keys_max;
    uint32_t end_ms; /* of destroy; 0: KV_TIER_END_MS */
    bool wipes;      /* zeros its memory of a block that leaves */
};

MUST_CHECK enum status kv_tier_create(const struct kv_tier_options *options,
                                      struct kv_tier **tier_out);
/* Its memory, for who counts it before it is made. */
uint64_t kv_tier_bytes(const struct kv_tier_options *options);
/* Starts its thread; without one, somebody calls work. NO_THREAD. */
MUST_CHECK enum status kv_tier_start(struct kv_tier *tier);
/* wake(arg) is called by work when a piece can be taken. It calls nothing of the tier. Before start, or NULL when all is over. */
void kv_tier_on_piece(struct kv_tier *tier, void (*wake)(void *arg), void *arg);
/* Writes what waits to be written, for half of end_ms at most, and ends the thread. False: the store has hung until end_ms; tier,
 * thread and store must be left alone until the process ends. NULL is fine. */
bool kv_tier_destroy(struct kv_tier *tier);

/* One read, write or removal. False: there was nothing to do. */
bool kv_tier_work(struct kv_tier *tier);

/* How many of these are done. has_work_out: one goes on, or waits. */
uint64_t kv_tier_done(struct kv_tier *tier, bool *has_work_out);

/* ---- blocks that leave ---- */

/* Where to copy the block's bytes; then end. NULL: it is not kept, or the store has it. */
uint8_t *kv_tier_store_begin(struct kv_tier *tier, const struct stored_block *block);
/* is_good: the bytes are there. */
void kv_tier_store_end(struct kv_tier *tier, uint8_t *bytes, bool is_good);

/* ---- blocks that come back ---- */

bool kv_tier_has(struct kv_tier *tier, const struct stored_key *key);
/* Copies the n keys, 1 .. keys_max. 0: KV_TIER_ORDERS_MAX are open. */
uint64_t kv_tier_order(struct kv_tier *tier, const struct stored_key *keys, uint32_t n);
/* The rest of it is not read, and nothing of it is taken any more. Fine for one that is over. */
void kv_tier_cancel(struct kv_tier *tier, uint64_t number);

struct kv_tier_piece {
    uint64_t order;
    uint32_t at;          /* in the order's keys */
    const uint8_t *bytes; /* NULL: missing, and the order is over */
    uint64_t origin;
    bool is_last; /* the order is over */
};

/* False: there is none. Give each one back. */
bool kv_tier_take(struct kv_tier *tier, struct kv_tier_piece *piece_out);
void kv_tier_give(struct kv_tier *tier, const struct kv_tier_piece *piece);

/* ---- what must vanish ---- */

void kv_tier_drop(struct kv_tier *tier, uint64_t origin);
void kv_tier_clear(struct kv_tier *tier);

/* ---- figures ---- */

struct kv_tier_counts {
    uint64_t n_stored;  /* blocks that were written, */
    uint64_t n_skipped; /* that the store had already, */
    uint64_t n_dropped; /* and that were not kept, because the memory for them was full */
    uint64_t n_read;
    uint64_t n_missed; /* orders that ended with a missing block */
    struct store_counts store;
};
void kv_tier_count(struct kv_tier *tier, struct kv_tier_counts *counts_out);
