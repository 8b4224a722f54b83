#include "kvcache/prefix_tree.h"

#include "base/hash.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { NONE = UINT32_MAX };

/* nodes[id] is the node of block id. */
struct node {
    struct prefix_hash hash;
    block_id parent; /* NONE: the first block of a prompt */
    uint32_t n_children;
    block_id previous, next; /* in the list of idle leaves */
    uint64_t idle_since;     /* on the tree's clock */
    bool is_in_tree, is_idle, is_listed;
};

struct prefix_tree {
    struct block_pool *pool;
    uint32_t n_nodes;
    uint64_t clock;       /* incremented at each use */
    uint64_t n_changes;   /* changes of peek_held's result; starts at 1 */
    block_id first, last; /* the list of idle leaves, longest idle first */
    uint32_t slots_mask;
    block_id *slots; /* [slots_mask + 1] hash table with open addressing; NONE: empty */
    struct node nodes[];
};

struct prefix_key prefix_key_for(const struct prefix_key *secret, const char *numerics)
{
    struct hash_key hash_key;
    struct prefix_key key;
    memcpy(&hash_key, secret, sizeof hash_key);
    struct hash128 hash = hash128_of(&hash_key, numerics, strlen(numerics));
    _Static_assert(sizeof hash == sizeof key, "both are 16 bytes");
    memcpy(&key, &hash, sizeof key);
    return key;
}

void prefix_hash_blocks(const struct prefix_key *key, const void *salt, size_t salt_bytes,
                        const uint32_t *token_ids, uint32_t n_tokens, uint32_t block_tokens,
                        struct prefix_hash *hashes_out)
{
    struct hash_key hash_key;
    _Static_assert(sizeof hash_key == sizeof *key, "both are 16 bytes");
    memcpy(&hash_key, key, sizeof hash_key);
    assert(block_tokens > 0);

    struct hash128 hash = hash128_of(&hash_key, salt, salt_bytes);
    uint32_t n = n_tokens / block_tokens;
    for (uint32_t i = 0; i < n; i++) {
        hash = hash128_chain(&hash_key, hash, token_ids + (size_t)i * block_tokens,
                             block_tokens * sizeof *token_ids);
        hashes_out[i] = (struct prefix_hash){hash.lo, hash.hi};
    }
}

/* ---- hash table ---- */

static uint32_t home_slot(const struct prefix_tree *tree, struct prefix_hash hash)
{
    return (uint32_t)hash.lo & tree->slots_mask;
}

/* The slot of hash, or the empty slot for it. At most half of the slots are used. */
static uint32_t find_slot(const struct prefix_tree *tree, struct prefix_hash hash)
{
    uint32_t slot = home_slot(tree, hash);
    while (tree->slots[slot] != NONE) {
        const struct node *node = &tree->nodes[tree->slots[slot]];
        if (node->hash.lo == hash.lo && node->hash.hi == hash.hi)
            return slot;
        slot = (slot + 1) & tree->slots_mask;
    }
    return slot;
}

static block_id find(const struct prefix_tree *tree, struct prefix_hash hash)
{
    return tree->slots[find_slot(tree, hash)];
}

/* Moves later entries of the run into the gap, so that no search ends too early. */
static void clear_slot(struct prefix_tree *tree, uint32_t gap)
{
    uint32_t mask = tree->slots_mask;
    for (uint32_t slot = (gap + 1) & mask; tree->slots[slot] != NONE; slot = (slot + 1) & mask) {
        uint32_t home = home_slot(tree, tree->nodes[tree->slots[slot]].hash);
        if (((slot - home) & mask) >= ((slot - gap) & mask)) {
            tree->slots[gap] = tree->slots[slot];
            gap = slot;
        }
    }
    tree->slots[gap] = NONE;
}

/* ---- the list of idle leaves ---- */

static void unlist(struct prefix_tree *tree, block_id id)
{
    struct node *node = &tree->nodes[id];
    assert(node->is_listed);
    *(node->previous == NONE ? &tree->first : &tree->nodes[node->previous].next) = node->next;
    *(node->next == NONE ? &tree->last : &tree->nodes[node->next].previous) = node->previous;
    node->is_listed = false;
}

static void list_before(struct prefix_tree *tree, block_id id, block_id next)
{
    struct node *node = &tree->nodes[id];
    node->next = next;
    node->previous = next == NONE ? tree->last : tree->nodes[next].previous;
    *(node->previous == NONE ? &tree->first : &tree->nodes[node->previous].next) = id;
    *(next == NONE ? &tree->last : &tree->nodes[next].previous) = id;
    node->is_listed = true;
}

/* Adds a node to the list or removes it, by its state. A node that has just become idle goes to the
 * end; a parent that has just become a leaf goes near the beginning. */
static void settle_leaf(struct prefix_tree *tree, block_id id)
{
    struct node *node = &tree->nodes[id];
    bool wanted = node->is_in_tree && node->is_idle && node->n_children == 0;
    if (wanted == node->is_listed)
        return;
    if (!wanted) {
        unlist(tree, id);
        return;
    }
    block_id next = NONE;
    if (tree->last != NONE && node->idle_since < tree->nodes[tree->last].idle_since) {
        next = tree->first;
        while (tree->nodes[next].idle_since < node->idle_since)
            next = tree->nodes[next].next;
    }
    list_before(tree, id, next);
}

/* ---- idle nodes ---- */

static void on_block_changed(void *arg, block_id id, bool is_idle)
{
    struct prefix_tree *tree = arg;
    struct node *node = &tree->nodes[id];
    if (!node->is_in_tree)
        return;
    assert(node->is_idle != is_idle);

    node->is_idle = is_idle;
    if (is_idle)
        node->idle_since = ++tree->clock;
    tree->n_changes++;
    settle_leaf(tree, id);
}

/* ---- the tree ---- */

enum status prefix_tree_create(struct block_pool *pool, struct prefix_tree **tree_out)
{
    uint32_t n_blocks = block_pool_size(pool);
    uint64_t n_slots = 4;
    while (n_slots < 2ull * n_blocks)
        n_slots *= 2;
    if (n_slots > UINT32_MAX)
        return STATUS_NO_MEMORY;

    struct prefix_tree *tree = calloc(1, sizeof *tree + n_blocks * sizeof *tree->nodes);
    if (!tree)
        return STATUS_NO_MEMORY;
    tree->slots = malloc(n_slots * sizeof *tree->slots);
    if (!tree->slots) {
        free(tree);
        return STATUS_NO_MEMORY;
    }
    memset(tree->slots, 0xff, n_slots * sizeof *tree->slots); /* NONE */
    tree->slots_mask = (uint32_t)n_slots - 1;
    tree->pool = pool;
    tree->first = tree->last = NONE;
    tree->n_changes = 1;
    block_pool_watch(pool, on_block_changed, tree);
    *tree_out = tree;
    return STATUS_OK;
}

void prefix_tree_destroy(struct prefix_tree *tree)
{
    if (!tree)
        return;
    block_pool_watch(tree->pool, NULL, NULL);
    for (block_id id = 0; id < block_pool_size(tree->pool); id++)
        if (tree->nodes[id].is_in_tree)
            block_pool_uncache(tree->pool, id);
    free(tree->slots);
    free(tree);
}

uint32_t prefix_tree_peek(const struct prefix_tree *tree, const struct prefix_hash *hashes,
                          uint32_t n)
{
    uint32_t known = 0;
    while (known < n && find(tree, hashes[known]) != NONE)
        known++;
    return known;
}

uint32_t prefix_tree_peek_held(const struct prefix_tree *tree, const struct prefix_hash *hashes,
                               uint32_t n, uint32_t *held_out)
{
    uint32_t known = 0, n_held = 0;
    for (block_id id; known < n && (id = find(tree, hashes[known])) != NONE; known++)
        n_held += !tree->nodes[id].is_idle;
    *held_out = n_held;
    return known;
}

uint32_t prefix_tree_match(struct prefix_tree *tree, const struct prefix_hash *hashes, uint32_t n,
                           block_id *ids_out)
{
    uint32_t known = 0;
    for (; known < n; known++) {
        block_id id = find(tree, hashes[known]);
        if (id == NONE)
            break;
        ids_out[known] = id;
    }
    block_pool_share(tree->pool, ids_out, known);
    return known;
}

static void add(struct prefix_tree *tree, struct prefix_hash hash, block_id parent, block_id id)
{
    struct node *node = &tree->nodes[id];
    assert(!node->is_in_tree);
    *node = (struct node){.hash = hash, .parent = parent, .is_in_tree = true};
    tree->slots[find_slot(tree, hash)] = id;
    tree->n_nodes++;
    if (parent != NONE) {
        tree->nodes[parent].n_children++;
        settle_leaf(tree, parent);
    }
    tree->n_changes++;
    block_pool_cache(tree->pool, id);
    assert(block_pool_state(tree->pool, id) != BLOCK_CACHED && "the caller holds it");
}

/* Whether KV that was computed on the block may be below the node of the known one. */
static bool may_stand_for(const struct prefix_tree *tree, block_id known, block_id id)
{
    uint64_t origin = block_pool_origin(tree->pool, id);
    return known == id || origin == 0 || origin == block_pool_origin(tree->pool, known);
}

void prefix_tree_insert(struct prefix_tree *tree, const struct prefix_hash *hashes,
                        const block_id *ids, uint32_t n)
{
    block_id parent = NONE;
    for (uint32_t i = 0; i < n; i++) {
        block_id known = find(tree, hashes[i]);
        if (known == NONE) {
            add(tree, hashes[i], parent, ids[i]);
            known = ids[i];
        }
        if (!may_stand_for(tree, known, ids[i]))
            return;
        parent = known;
    }
}

static void remove_leaf(struct prefix_tree *tree, block_id id)
{
    struct node *node = &tree->nodes[id];
    assert(node->is_in_tree && node->n_children == 0 && "from its end upwards");
    if (node->is_idle)
        unlist(tree, id);
    tree->n_changes++;
    clear_slot(tree, find_slot(tree, node->hash));
    node->is_in_tree = false;
    tree->n_nodes--;
    if (node->parent != NONE) {
        tree->nodes[node->parent].n_children--;
        settle_leaf(tree, node->parent);
    }
    block_pool_uncache(tree->pool, id);
}

uint32_t prefix_tree_evict(struct prefix_tree *tree, uint32_t n_free_wanted)
{
    uint32_t evicted = 0;
    while (tree->first != NONE && block_pool_count(tree->pool, BLOCK_FREE) < n_free_wanted) {
        remove_leaf(tree, tree->first);
        evicted++;
    }
    return evicted;
}

/* The node itself, or a node above it. */
static bool is_of(const struct prefix_tree *tree, block_id id, uint64_t origin)
{
    for (; id != NONE; id = tree->nodes[id].parent)
        if (block_pool_origin(tree->pool, id) == origin)
            return true;
    return false;
}

uint32_t prefix_tree_drop(struct prefix_tree *tree, uint64_t origin)
{
    uint32_t n_before = tree->n_nodes;
    assert(origin != 0);
    for (block_id id = 0; id < block_pool_size(tree->pool); id++) {
        /* From a leaf upwards: everything below such a node is removed, too. */
        for (block_id at = id, parent; at != NONE; at = parent) {
            const struct node *node = &tree->nodes[at];
            if (!node->is_in_tree || node->n_children > 0 || !is_of(tree, at, origin))
                break;
            parent = node->parent;
            remove_leaf(tree, at);
        }
    }
    return n_before - tree->n_nodes;
}

static bool is_below(const struct prefix_tree *tree, block_id id, block_id root)
{
    while (id != NONE && id != root)
        id = tree->nodes[id].parent;
    return id == root;
}

static void remove_subtree(struct prefix_tree *tree, block_id root)
{
    for (block_id id = 0; id < block_pool_size(tree->pool); id++) {
        for (block_id at = id, parent; at != NONE; at = parent) { /* from a leaf upwards */
            const struct node *node = &tree->nodes[at];
            if (!node->is_in_tree || node->n_children > 0 || !is_below(tree, at, root))
                break;
            parent = node->parent;
            remove_leaf(tree, at);
        }
    }
    assert(!tree->nodes[root].is_in_tree);
}

uint32_t prefix_tree_uproot(struct prefix_tree *tree, uint32_t n_free_wanted)
{
    uint32_t n_before = tree->n_nodes;
    for (block_id id = 0; id < block_pool_size(tree->pool); id++) {
        if (block_pool_count(tree->pool, BLOCK_FREE) >= n_free_wanted)
            break;
        if (tree->nodes[id].is_in_tree && tree->nodes[id].is_idle)
            remove_subtree(tree, id);
    }
    return n_before - tree->n_nodes;
}

uint32_t prefix_tree_forget(struct prefix_tree *tree, struct prefix_hash hash)
{
    uint32_t n_before = tree->n_nodes;
    block_id id = find(tree, hash);
    if (id != NONE)
        remove_subtree(tree, id);
    return n_before - tree->n_nodes;
}

uint32_t prefix_tree_count(const struct prefix_tree *tree)
{
    return tree->n_nodes;
}

uint64_t prefix_tree_changes(const struct prefix_tree *tree)
{
    return tree->n_changes;
}
