/*
 * block_union - the blocks that any of several prefix caches has, as one cache for those who see the workers as one engine.
 *
 *     source, its hash --link--> entry: the router's own hash, how many sources have it --> span_events (kvcache/span_events.h)
 *
 * Workers have keyed hashes: the same tokens have another hash on each. So a block is known by its tokens and what it follows, under
 * a key of the router's. It is stored when the first source has it, and removed when the last one has it no more.
 *
 * A block that follows one that is not known here is left out, and so are those behind it; so is what comes when there is no room.
 * Who is told less routes less well, and nothing worse.
 *
 * Bound: blocks_max blocks of all sources together, each counted once a source; about (150 + 8 block_tokens) bytes each.
 *
 * Thread: one at a time; spans may be read by any.
 */
#pragma once

#include "kvcache/span_events.h"

struct block_union;

struct block_union_options {
    uint32_t sources_max;
    uint32_t blocks_max;
    uint32_t events_max;   /* a power of two */
    uint32_t block_tokens; /* of every source */
    struct prefix_key key;
};

/* INVALID_ARGUMENT: a bound is 0. NO_MEMORY. */
MUST_CHECK enum status block_union_create(const struct block_union_options *options,
                                          struct block_union **union_out);
void block_union_destroy(struct block_union *all); /* NULL is fine */

/* The source has a block of block_tokens tokens behind that parent; zeros: behind none. One that it has already is fine. False: it was
 * left out. */
bool block_union_store(struct block_union *all, uint32_t source, struct prefix_hash hash,
                       struct prefix_hash parent, const uint32_t *token_ids);
/* It has it no more. One that it does not have is fine. */
void block_union_remove(struct block_union *all, uint32_t source, struct prefix_hash hash);
/* It has nothing any more. */
void block_union_clear(struct block_union *all, uint32_t source);

const struct span_events *block_union_spans(const struct block_union *all);
uint32_t block_union_count(const struct block_union *all); /* blocks that a source has */
