/*
 * prefix_tier - what an engine's prefix cache does with a tier behind it (kvtier/kv_tier.h).
 *
 *     a block is evicted                  its bytes are copied to the tier, unless its KV came from several origins
 *     a request waits for its admission   what the cache lacks of its prefix, and the tier has, is ordered
 *     blocks come                         they are copied into the pool and enter the cache, span by span
 *
 * A request whose blocks another one has ordered waits for that order, and then asks again. An order ends early when the cache
 * has all of it, because others computed it, and when its request leaves the queue.
 *
 * A request waits for its order up to limit_ns, then it is admitted with what has come. Others are not held up. No block of
 * the pool is held for an order: what has come is cached, as any prefix of an earlier request, and counts as used now. An order
 * begins when the blocks for it can be taken.
 *
 * While the tier has done nothing since an order was late, because its disk hangs, nobody begins to.
 *
 * What is dropped in the cache, or flushed, leaves the tier, too; so does all when the cache forgets a prefix (rare): what
 * stands below it may be anywhere in the stores. A block from the tier has the origin of all
 * KV before it.
 *
 * Bounds: orders of KV_TIER_ORDERS_MAX requests at a time; those of later requests wait for their turn, as long as the request
 * waits for its admission. A call of run copies PREFIX_TIER_RUN_BYTES and at most one block more into the pool; if there may be
 * more, the next limit is now. It allocates nothing.
 *
 * Thread: the engine's. All functions but create take NULL: no tier.
 */
#pragma once

#include "device/device.h"
#include "engine/cache_events.h"
#include "engine/engine_request.h"
#include "kvcache/kv_manager.h"
#include "kvtier/kv_tier.h"

#define PREFIX_TIER_RUN_BYTES (64ull << 20)

struct prefix_tier;

struct prefix_tier_options {
    struct kv_manager *manager;      /* borrowed until destroy, as all here */
    struct kv_tier *tier;            /* NULL: there is none */
    struct cache_events *events;     /* NULL: nobody is told */
    struct device *device;           /* where the pool is; its compute queue is the engine's */
    const struct geometry *geometry; /* copied */
    uint32_t context_tokens;
    uint64_t limit_ns;  /* 0: nobody waits, and nothing comes back */
    uint64_t run_bytes; /* of a call of run; 0: PREFIX_TIER_RUN_BYTES */
};

/* Keys of an order: blocks of a whole context, with all spans of window groups. */
uint32_t prefix_tier_keys_max(const struct geometry *geometry, uint32_t context_tokens);

/* pieces_max of the tier, at least: blocks of two spans. An engine that has some of a span's blocks waits for the rest of them,
 * and orders are read one after the other, so one span's are enough to go on; the others are read meanwhile. */
uint32_t prefix_tier_pieces_min(const struct geometry *geometry);

/* Without a tier, or with a manager that does not cache, tier_out is NULL. */
MUST_CHECK enum status prefix_tier_create(const struct prefix_tier_options *options,
                                          struct prefix_tier **tier_out);
void prefix_tier_destroy(struct prefix_tier *tier);

/* Takes what has come, up to the bytes of a call, and ends late orders. In each round before the admission. */
void prefix_tier_run(struct prefix_tier *tier, uint64_t now_ns);
/* Whether a request waits for an order that it has, or another one. False: holds may order. */
bool prefix_tier_waits(struct prefix_tier *tier, struct engine_request *request, uint64_t now_ns);
/* Likewise; if it waits for none, it orders what is missing of its n spans. In each round after run. */
bool prefix_tier_holds(struct prefix_tier *tier, struct engine_request *request,
                       const struct prefix_hash *hashes, uint32_t n, uint64_t now_ns);
/* The request leaves the queue without being admitted. */
void prefix_tier_leave(struct prefix_tier *tier, struct engine_request *request);
/* The request would not gain by another question. */
bool prefix_tier_is_settled(const struct prefix_tier *tier, const struct engine_request *request);
/* When the next order or wait is late, or when run was called, if that left blocks; DEADLINE_NONE: never. */
uint64_t prefix_tier_next_limit_ns(const struct prefix_tier *tier);

void prefix_tier_drop(struct prefix_tier *tier, uint64_t origin);
void prefix_tier_clear(struct prefix_tier *tier); /* after a flush, or when the cache forgot */

struct prefix_tier_figures {
    uint64_t n_orders, n_late; /* orders; that were ended at their limit */
    uint64_t blocks, tokens;   /* that entered the cache; by which prefixes in it became longer */
    uint64_t no_room;          /* blocks that came and found no place in the cache */
    uint64_t mixed;            /* evicted blocks that were not kept: of several origins */
    struct kv_tier_counts tier;
};
/* Zeros without a tier. */
void prefix_tier_count(struct prefix_tier *tier, struct prefix_tier_figures *figures_out);
