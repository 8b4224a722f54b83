/*
 * prefix_tree - finds the KV blocks of a prompt's beginning that are in the pool already.
 *
 * A radix tree over whole blocks of tokens: a node is one block, its key the hash of all tokens from
 * the beginning of the prompt to the block's end, so that equal keys mean equal prefixes. The hash is
 * keyed by a secret of the process and starts from the request's cache salt.
 *
 *     h[0] = H(key, salt),  h[i + 1] = H(key, h[i] || tokens of block i)        128 bits each
 *
 * The tree holds the pool's cache reference of its blocks. Eviction takes, least recently used first,
 * leaves whose block is in state CACHED (nobody holds or pins it).
 *
 * Whatever was computed on a block of some origin (block_pool.h) lies below a node of that origin: so
 * all of it can be dropped when that origin is not believed any more.
 *
 * Thread: the pool's.
 */
#pragma once

#include "kvcache/block_pool.h"

struct prefix_hash {
    uint64_t lo, hi;
};

struct prefix_key {
    uint8_t bytes[16];
};

/* The key for blocks of one numerics id: the same tokens under another id are other blocks. */
struct prefix_key prefix_key_for(const struct prefix_key *secret, const char *numerics);

/* Hashes of the n_tokens / block_tokens whole blocks; hashes_out has room for them. */
void prefix_hash_blocks(const struct prefix_key *key, const void *salt, size_t salt_bytes,
                        const uint32_t *token_ids, uint32_t n_tokens, uint32_t block_tokens,
                        struct prefix_hash *hashes_out);

struct prefix_tree;

/* At most one node a block of the pool. pool is borrowed until destroy. */
MUST_CHECK enum status prefix_tree_create(struct block_pool *pool, struct prefix_tree **tree_out);
/* Gives all its blocks back. NULL is fine. */
void prefix_tree_destroy(struct prefix_tree *tree);

/* The longest known prefix, at most n blocks: its blocks get one more holder, the caller, and count
 * as used now. Returns how many. */
uint32_t prefix_tree_match(struct prefix_tree *tree, const struct prefix_hash *hashes, uint32_t n,
                           block_id *ids_out);
/* The same without taking anything: for admission and metrics. */
uint32_t prefix_tree_peek(const struct prefix_tree *tree, const struct prefix_hash *hashes,
                          uint32_t n);
/* The same, and held_out: of these, the blocks that somebody holds or pins. To match them takes nothing from what
 * is FREE or CACHED. */
uint32_t prefix_tree_peek_held(const struct prefix_tree *tree, const struct prefix_hash *hashes,
                               uint32_t n, uint32_t *held_out);
/* Adds the blocks (held by the caller) of a prefix. A prefix that is known already keeps its first
 * block; the caller's stays the caller's alone, and if it is of an origin that the known one is not of,
 * nothing that rests on it is added. */
void prefix_tree_insert(struct prefix_tree *tree, const struct prefix_hash *hashes,
                        const block_id *ids, uint32_t n);
/* Evicts until n blocks are FREE or nothing more can be. Returns the number evicted. */
uint32_t prefix_tree_evict(struct prefix_tree *tree, uint32_t n_free_wanted);
/* For when that was not enough: blocks that nobody holds but that stand above held ones, as they do if the
 * holder of a longer prefix has a copy of its beginning. They go with all that is below them in the tree; who
 * holds it keeps it. Until n blocks are FREE or none is CACHED. Returns how many nodes went. */
uint32_t prefix_tree_uproot(struct prefix_tree *tree, uint32_t n_free_wanted);
/* Removes the nodes of that origin and all below them, in use or not. Returns how many. */
uint32_t prefix_tree_drop(struct prefix_tree *tree, uint64_t origin);
/* Removes the node of that hash, if there is one, and all below, in use or not. Returns how many. */
uint32_t prefix_tree_forget(struct prefix_tree *tree, struct prefix_hash hash);
uint32_t prefix_tree_count(const struct prefix_tree *tree);
/* A number, not 0, that is another one whenever peek_held may answer otherwise than before. */
uint64_t prefix_tree_changes(const struct prefix_tree *tree);
