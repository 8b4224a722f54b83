/*
 * prefix_tree - the prefix cache: finds the KV blocks of the beginning of a prompt that are already
 * in the pool.
 *
 * A radix tree over spans, whole blocks of tokens: a node is one span, its key the hash of all tokens from
 * the beginning of the prompt to the span's end, so that equal keys mean equal prefixes. The hash is
 * keyed and starts from the request's cache salt (prefix_hash.h).
 *
 *     h[0] = H(key, salt),  h[i + 1] = H(key, h[i] || tokens of span i)        128 bits each
 *
 * A node has the blocks of its span: one of each full group, and one of each window group (cache_groups.h) unless it was
 * given back before or evicted. A prefix of n spans is found if its nodes are there, and in each window group the blocks
 * that the token behind it sees.
 *
 * Where layers have recurrent state, a node may also have the blocks of a snapshot: what these layers know of all tokens up to the
 * span's end. Then a prefix is found only if its last node has one. Nobody changes a snapshot; who computes behind it has a copy.
 *
 * The tree holds the cache reference of its blocks in the pool. Eviction takes what is least recently used among the
 * leaves and the blocks of window groups and snapshots, if the block is in state CACHED (no holder, no pin). A leaf goes with all its
 * blocks, a block of a window group or a snapshot alone.
 *
 * All KV that was computed on a block of some origin (block_pool.h) is below a node of that origin.
 * So all of it can be dropped when that origin is not trusted any more.
 *
 * Arrays of ids are [n_groups][stride]: block i of a group is that of span i; BLOCK_NONE: the group has none.
 *
 * Thread: the pool's.
 */
#pragma once

#include "kvcache/block_pool.h"
#include "kvcache/cache_groups.h"
#include "kvcache/prefix_hash.h"

struct prefix_tree;

/* It has at most one node for each block of the pool; without a full group, where a prefix has nodes without a block, two, and
 * those of some prefixes of spans_max. pool is borrowed until destroy, groups is copied. */
MUST_CHECK enum status prefix_tree_create(struct block_pool *pool,
                                          const struct cache_groups *groups, uint32_t block_tokens,
                                          uint32_t spans_max, struct prefix_tree **tree_out);
/* Its nodes at most, and its memory beside the pool at most: linear in n_blocks. A node has a number for each group and for each block of
 * a recurrent state. */
uint32_t prefix_tree_nodes(const struct cache_groups *groups, uint32_t n_blocks,
                           uint32_t spans_max);
uint64_t prefix_tree_bytes(const struct cache_groups *groups, uint32_t n_blocks,
                           uint32_t spans_max);
/* Releases all its blocks. NULL is fine. */
void prefix_tree_destroy(struct prefix_tree *tree);

/* Finds the longest cached prefix, at most n spans. Its blocks get one more holder, the caller, and count as used now:
 * of a full group all, of a window group those that the next token sees. The other ids are not written. Returns how many
 * spans. */
uint32_t prefix_tree_match(struct prefix_tree *tree, const struct prefix_hash *hashes, uint32_t n,
                           block_id *ids_out, uint32_t stride);
/* The same where the state behind it comes from elsewhere: snapshots are not looked at. */
uint32_t prefix_tree_match_spans(struct prefix_tree *tree, const struct prefix_hash *hashes,
                                 uint32_t n, block_id *ids_out, uint32_t stride);
/* Gives one more holder, the caller, to the snapshot of a prefix that was found: the node of its last span. */
void prefix_tree_share_state(struct prefix_tree *tree, struct prefix_hash hash, block_id *ids_out);
/* The same without a holder or a use: for admission and metrics. */
uint32_t prefix_tree_peek(const struct prefix_tree *tree, const struct prefix_hash *hashes,
                          uint32_t n);
/* The same; held_out: how many blocks of full groups among these have a holder or a pin, of the first n_lasting spans. Using them
 * does not reduce the FREE and CACHED blocks. */
uint32_t prefix_tree_peek_held(const struct prefix_tree *tree, const struct prefix_hash *hashes,
                               uint32_t n, uint32_t n_lasting, uint32_t *held_out);
/* Adds the blocks of a prefix, which the caller holds. If a span is cached already, its blocks stay, the caller's blocks of
 * full groups are not added, and those of window groups where it has none. If the caller's have an origin that the cached
 * ones do not have, no later spans are added. Spans before the last one that the tree has from these blocks are not looked at
 * again. Returns of how many spans the nodes may stand for the caller's: what is computed on these is below their origins. */
uint32_t prefix_tree_insert(struct prefix_tree *tree, const struct prefix_hash *hashes, uint32_t n,
                            const block_id *ids, uint32_t stride);
/* How many spans would be found if there were snapshots everywhere. */
uint32_t prefix_tree_reach(const struct prefix_tree *tree, const struct prefix_hash *hashes,
                           uint32_t n);
bool prefix_tree_has_state(const struct prefix_tree *tree, struct prefix_hash hash);
/* Blocks first .. first + n - 1 of a snapshot, which the caller holds, become the node's where it lacks them. origin: what they were
 * computed on has it; 0: none. False: there is no such node, or it is not below one of that origin. */
bool prefix_tree_add_state(struct prefix_tree *tree, struct prefix_hash hash, uint64_t origin,
                           uint32_t first, uint32_t n, const block_id *ids);
/* A snapshot, which the caller holds, leaves the tree. */
void prefix_tree_take_state(struct prefix_tree *tree, struct prefix_hash hash);
/* Evicts until n blocks are FREE or no more can be evicted. Returns the number of evicted blocks. */
uint32_t prefix_tree_evict(struct prefix_tree *tree, uint32_t n_free_wanted);
/* If that was not enough: also evicts blocks without a holder above held ones. These exist if the holder of a
 * longer prefix has a copy of its beginning. The nodes below them are removed, too; their holders keep the
 * blocks. Ends when n blocks are FREE or none is CACHED. Returns the number of removed nodes. */
uint32_t prefix_tree_uproot(struct prefix_tree *tree, uint32_t n_free_wanted);
/* Removes the nodes of that origin and all nodes below them, in use or not. Returns how many. */
uint32_t prefix_tree_drop(struct prefix_tree *tree, uint64_t origin);
/* Removes the node with that hash, if it exists, and all nodes below it, in use or not. Returns how
 * many. */
uint32_t prefix_tree_forget(struct prefix_tree *tree, struct prefix_hash hash);
/* Evicts all that nobody holds. Returns the number of evicted blocks. */
uint32_t prefix_tree_flush(struct prefix_tree *tree);
uint32_t prefix_tree_count(const struct prefix_tree *tree); /* nodes */
/* Blocks that were evicted or flushed since the tree was made. */
uint64_t prefix_tree_evictions(const struct prefix_tree *tree);
/* A number, not 0, that changes whenever the result of peek_held may have changed. */
uint64_t prefix_tree_changes(const struct prefix_tree *tree);

/* ---- for tiers behind the cache, and those who watch it ---- */

enum prefix_reason {
    PREFIX_STORED,
    PREFIX_EVICTED,
    PREFIX_DROPPED,   /* its origin is not trusted */
    PREFIX_FORGOTTEN, /* its numbers are not */
    PREFIX_FLUSHED
};

#define PREFIX_ORIGINS_MIXED UINT64_MAX

/* A block has come into the tree, or leaves it: then its bytes are still there. */
struct prefix_change {
    enum prefix_reason reason;
    struct prefix_hash hash, parent; /* parent: zeros for the first span of a prompt */
    uint32_t group;                  /* or behind the groups: of a snapshot, which block of it */
    block_id id;
    uint64_t
        origin; /* of it and what is above it: 0, one, or PREFIX_ORIGINS_MIXED; of a stored one 0 */
    bool is_idle; /* nobody holds it: nothing writes to it */
};

typedef void (*prefix_observer)(void *arg, const struct prefix_change *change);
/* One; NULL: none. It runs inside the functions above and calls nothing of tree and pool that changes them. */
void prefix_tree_observe(struct prefix_tree *tree, prefix_observer observer, void *arg);

/* A span has come into the tree, or leaves it: its node, whatever blocks that has. Where a group is full, that is its blocks of the
 * full groups; those of windows may be gone before. Else also a span whose windows have passed, as long as one behind it has
 * a block. A span leaves before the one that it follows. */
struct prefix_span_change {
    enum prefix_reason reason;
    struct prefix_hash hash, parent; /* parent: zeros for the first span of a prompt */
    uint32_t span; /* its number, below prefix_tree_spans_max, while it is in the tree */
};

typedef void (*prefix_span_observer)(void *arg, const struct prefix_span_change *change);
/* As prefix_tree_observe, beside it. */
void prefix_tree_observe_spans(struct prefix_tree *tree, prefix_span_observer observer, void *arg);
uint32_t prefix_tree_spans_max(const struct prefix_tree *tree);

/* Whether the tree has that block. */
bool prefix_tree_has(const struct prefix_tree *tree, struct prefix_hash hash, uint32_t group);
/* The spans before n, and the snapshot behind the last one, count as used now, as far as they are there. Returns how many are, from the
 * first one on. */
uint32_t prefix_tree_touch(struct prefix_tree *tree, const struct prefix_hash *hashes, uint32_t n);
/* Adds the caller's blocks of span at alone, ids [n_groups], as insert. False: the span before it, or a block of a full
 * group, is missing; or it may not be added. */
bool prefix_tree_add(struct prefix_tree *tree, const struct prefix_hash *hashes, uint32_t at,
                     const block_id *ids);
