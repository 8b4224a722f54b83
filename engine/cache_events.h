/*
 * cache_events - tells others what an engine's prefix cache has (kvcache/span_events.h).
 *
 *     the engine keeps a prefix --begin--> kv_manager_keep --> the tree: a span has come --> its hash, and its tokens
 *                               --end-->
 *
 * The tree knows no tokens. Who adds to it says before what the tokens are; what is added without that has none.
 *
 * Tokens are told of the common cache alone, that of requests without a cache salt: who may watch a worker is not who may read
 * what was cached apart. Nor are they told of an encoder's text: a part of it is no prefix, and its hashes are not those of its tokens.
 *
 * What a span is, and when it comes and goes: prefix_span_change in kvcache/prefix_tree.h.
 *
 * Thread: the engine's; spans may be read by any. All functions but create take NULL: nobody is told.
 */
#pragma once

#include "kvcache/kv_manager.h"
#include "kvcache/span_events.h"

struct cache_events;

/* Where what is added comes from; borrowed from begin to end. */
struct cache_source {
    const struct prefix_hash *hashes; /* [n] of its first spans */
    const uint32_t *token_ids;        /* of those */
    uint32_t n;
    bool is_common; /* engine_request_is_common */
};

struct cache_events_options {
    struct kv_manager *manager; /* borrowed until destroy */
    uint32_t block_tokens;
    uint32_t events_max; /* rounded up to a power of two; 0: nobody is told */
    bool wipes;
};

/* Its memory, for a cache of so many spans; 0 without events. */
uint64_t cache_events_bytes(uint32_t spans_max, uint32_t events_max, uint32_t block_tokens);
/* With a manager that does not cache, or no events, events_out is NULL. */
MUST_CHECK enum status cache_events_create(const struct cache_events_options *options,
                                           struct cache_events **events_out);
/* Before the manager. */
void cache_events_destroy(struct cache_events *events);

void cache_events_begin(struct cache_events *events, const struct cache_source *source);
void cache_events_end(struct cache_events *events);

struct span_events *cache_events_spans(const struct cache_events *events); /* NULL of NULL */
