/*
 * prefix_tree_state - what a prefix tree holds, for prefix_tree.c (nodes, eviction), prefix_tree_find.c (looking) and
 * prefix_tree_watch.c (who watches).
 *
 * Thread: the tree's.
 */
#pragma once

#include "kvcache/prefix_tree.h"

#include <assert.h>

enum { NONE = UINT32_MAX };

typedef uint32_t node_id;

struct node {
    struct prefix_hash hash;
    uint64_t origin; /* of the first of its blocks that has one; 0: none has */
    node_id parent;  /* NONE: the first span of a prompt */
    uint32_t n_children;
    uint32_t n_blocks; /* of all rows */
    uint32_t n_state;  /* of these, of a snapshot */
    bool is_in_tree;
};

/* What the tree knows of a block of the pool. */
struct leaf_entry {
    node_id node;            /* NONE: it is not in the tree */
    uint32_t group;          /* or row of a state */
    block_id previous, next; /* in the list of idle blocks that can be evicted */
    uint64_t idle_since;     /* on the tree's clock */
    bool is_idle, is_listed;
};

struct prefix_tree {
    struct block_pool *pool;
    struct cache_groups groups;
    uint32_t n_groups, block_tokens;
    uint32_t n_rows; /* of a node's blocks: the groups, then the blocks of a state */
    bool has_full;   /* group 0 is a full one: its block stands for the node */
    uint32_t nodes_max, n_nodes;
    uint64_t n_evicted;   /* blocks, ever */
    uint64_t clock;       /* incremented at each use */
    uint64_t n_changes;   /* changes of peek_held's result; starts at 1 */
    block_id first, last; /* the list, longest idle first */
    prefix_observer observer;
    void *observer_arg;
    prefix_span_observer span_observer;
    void *span_observer_arg;
    enum prefix_reason why; /* blocks leave now */
    bool has_origins;       /* a block with an origin was added at some time */
    uint32_t slots_mask;
    node_id *slots;              /* [slots_mask + 1] hash table with open addressing; NONE: empty */
    struct node *nodes;          /* [nodes_max] */
    node_id *unused;             /* [nodes_max] a stack of those that are not in the tree */
    block_id *blocks;            /* [nodes_max][n_rows] */
    struct leaf_entry entries[]; /* by block */
};

static inline uint32_t home_slot(const struct prefix_tree *tree, struct prefix_hash hash)
{
    return (uint32_t)hash.lo & tree->slots_mask;
}

/* The slot of hash, or the empty slot for it. At most half of the slots are used. */
static inline uint32_t find_slot(const struct prefix_tree *tree, struct prefix_hash hash)
{
    uint32_t slot = home_slot(tree, hash);
    while (tree->slots[slot] != NONE) {
        const struct node *node = &tree->nodes[tree->slots[slot]];
        if (prefix_hash_equal(node->hash, hash))
            return slot;
        slot = (slot + 1) & tree->slots_mask;
    }
    return slot;
}

static inline node_id find(const struct prefix_tree *tree, struct prefix_hash hash)
{
    return tree->slots[find_slot(tree, hash)];
}

/* Of a group, or of a row behind the groups: a block of the state at the span's end. */
static inline block_id *block_of(const struct prefix_tree *tree, node_id node, uint32_t row)
{
    assert(node < tree->nodes_max && row < tree->n_rows);
    return &tree->blocks[(size_t)node * tree->n_rows + row];
}

static inline bool is_full(const struct prefix_tree *tree, uint32_t row)
{
    return row < tree->n_groups && cache_group_window(&tree->groups, row) == 0;
}

/* All blocks of the state at the span's end are there; true if the model has none. */
static inline bool has_state(const struct prefix_tree *tree, node_id node)
{
    return tree->nodes[node].n_state == tree->groups.n_state;
}

/* Tells the observer, if there is one, of a block that the node has. */
void prefix_tree_tell(const struct prefix_tree *tree, enum prefix_reason reason, node_id at,
                      uint32_t row, block_id id);
/* The same of a node that has come or leaves. */
void prefix_tree_tell_span(const struct prefix_tree *tree, enum prefix_reason reason, node_id at);
