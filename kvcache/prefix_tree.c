#include "kvcache/prefix_tree_state.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Of the longest prefixes, for how many there are nodes at least. */
enum { LONG_PREFIXES = 16 };

/* Of the hash table: a power of two, at least half of so many a node, and fewer than so many. */
enum { SLOTS_OF_NODE = 4, SLOTS_MIN = 4 };

/* ---- hash table ---- */

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

/* ---- blocks of nodes ---- */

static bool has_origin(const struct prefix_tree *tree, node_id at, uint64_t origin)
{
    bool has = tree->nodes[at].origin == origin;
    for (uint32_t group = 0; group < tree->n_groups && !has; group++) {
        const block_id id = *block_of(tree, at, group);
        has = id != BLOCK_NONE && block_pool_origin(tree->pool, id) == origin;
    }
    return has;
}

/* ---- the list of idle blocks that can be evicted ---- */

static void unlist(struct prefix_tree *tree, block_id id)
{
    struct leaf_entry *entry = &tree->entries[id];
    assert(entry->is_listed);
    *(entry->previous == NONE ? &tree->first : &tree->entries[entry->previous].next) = entry->next;
    *(entry->next == NONE ? &tree->last : &tree->entries[entry->next].previous) = entry->previous;
    entry->is_listed = false;
}

static void list_before(struct prefix_tree *tree, block_id id, block_id next)
{
    struct leaf_entry *entry = &tree->entries[id];
    entry->next = next;
    entry->previous = next == NONE ? tree->last : tree->entries[next].previous;
    *(entry->previous == NONE ? &tree->first : &tree->entries[entry->previous].next) = id;
    *(next == NONE ? &tree->last : &tree->entries[next].previous) = id;
    entry->is_listed = true;
}

/* Of a window group or a state any block; of the first full group that of a leaf. The other full ones go with it. */
static bool can_go(const struct prefix_tree *tree, block_id id)
{
    const struct leaf_entry *entry = &tree->entries[id];
    if (entry->node == NONE || !entry->is_idle)
        return false;
    return !is_full(tree, entry->group) ||
           (entry->group == 0 && tree->nodes[entry->node].n_children == 0);
}

/* Adds a block to the list or removes it, by its state. A block that has just become idle goes to the
 * end; that of a parent that has just become a leaf goes near the beginning. */
static void settle(struct prefix_tree *tree, block_id id)
{
    const struct leaf_entry *entry = &tree->entries[id];
    const bool wanted = can_go(tree, id);
    if (wanted == entry->is_listed)
        return;
    if (!wanted) {
        unlist(tree, id);
        return;
    }
    block_id next = NONE;
    if (tree->last != NONE && entry->idle_since < tree->entries[tree->last].idle_since) {
        next = tree->first;
        while (tree->entries[next].idle_since < entry->idle_since)
            next = tree->entries[next].next;
    }
    list_before(tree, id, next);
}

static void settle_node(struct prefix_tree *tree, node_id node)
{
    if (tree->has_full)
        settle(tree, *block_of(tree, node, 0));
}

static void on_block_changed(void *arg, block_id id, bool is_idle)
{
    struct prefix_tree *tree = arg;
    struct leaf_entry *entry = &tree->entries[id];
    if (entry->node == NONE)
        return;
    assert(entry->is_idle != is_idle);

    entry->is_idle = is_idle;
    if (is_idle)
        entry->idle_since = ++tree->clock;
    tree->n_changes++;
    settle(tree, id);
}

/* ---- creation ---- */

static bool make_arrays(struct prefix_tree *tree)
{
    uint64_t n_slots = SLOTS_MIN;
    while (n_slots < SLOTS_OF_NODE / 2ull * tree->nodes_max)
        n_slots *= 2;
    if (n_slots > UINT32_MAX)
        return false;
    tree->slots = malloc(n_slots * sizeof *tree->slots);
    tree->nodes = calloc(tree->nodes_max, sizeof *tree->nodes);
    tree->unused = malloc(tree->nodes_max * sizeof *tree->unused);
    tree->blocks = malloc((size_t)tree->nodes_max * tree->n_rows * sizeof *tree->blocks);
    if (!tree->slots || !tree->nodes || !tree->unused || !tree->blocks)
        return false;
    memset(tree->slots, 0xff, n_slots * sizeof *tree->slots); /* NONE */
    tree->slots_mask = (uint32_t)n_slots - 1;
    for (node_id i = 0; i < tree->nodes_max; i++)
        tree->unused[i] = tree->nodes_max - 1 - i;
    return true;
}

/* Nodes whose windows have passed stand without a block above the others of their prefix. */
static uint32_t nodes_without_full(uint32_t n_blocks, uint32_t spans_max)
{
    const uint64_t n = 2ull * n_blocks + (uint64_t)LONG_PREFIXES * spans_max;
    return n < UINT32_MAX / 4 ? (uint32_t)n : UINT32_MAX / 4;
}

uint32_t prefix_tree_nodes(const struct cache_groups *groups, uint32_t n_blocks, uint32_t spans_max)
{
    return cache_group_window(groups, 0) == 0 ? n_blocks : nodes_without_full(n_blocks, spans_max);
}

uint64_t prefix_tree_bytes(const struct cache_groups *groups, uint32_t n_blocks, uint32_t spans_max)
{
    const uint64_t of_node = sizeof(struct node) + (SLOTS_OF_NODE + 1) * sizeof(node_id) +
                             cache_groups_rows(groups) * sizeof(block_id);
    return sizeof(struct prefix_tree) + SLOTS_MIN * sizeof(node_id) +
           (uint64_t)n_blocks * sizeof(struct leaf_entry) +
           prefix_tree_nodes(groups, n_blocks, spans_max) * of_node;
}

enum status prefix_tree_create(struct block_pool *pool, const struct cache_groups *groups,
                               uint32_t block_tokens, uint32_t spans_max,
                               struct prefix_tree **tree_out)
{
    const uint32_t n_blocks = block_pool_size(pool);
    struct prefix_tree *tree = calloc(1, sizeof *tree + n_blocks * sizeof *tree->entries);
    if (!tree)
        return STATUS_NO_MEMORY;
    tree->pool = pool;
    tree->groups = *groups;
    tree->block_tokens = block_tokens;
    tree->n_groups = cache_groups_count(groups);
    tree->n_rows = cache_groups_rows(groups);
    tree->has_full = is_full(tree, 0);
    tree->nodes_max = prefix_tree_nodes(groups, n_blocks, spans_max);
    tree->first = tree->last = NONE;
    tree->n_changes = 1;
    tree->why = PREFIX_EVICTED;
    for (block_id id = 0; id < n_blocks; id++)
        tree->entries[id].node = NONE;
    if (!make_arrays(tree)) {
        prefix_tree_destroy(tree);
        return STATUS_NO_MEMORY;
    }
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
        if (tree->entries[id].node != NONE)
            block_pool_uncache(tree->pool, id);
    free(tree->slots);
    free(tree->nodes);
    free(tree->unused);
    free(tree->blocks);
    free(tree);
}

/* ---- adding ---- */

static void add_block(struct prefix_tree *tree, node_id at, uint32_t group, block_id id)
{
    struct node *node = &tree->nodes[at];
    const uint64_t origin = block_pool_origin(tree->pool, id);
    assert(tree->entries[id].node == NONE &&
           (origin == 0 || !node->origin || node->origin == origin));
    if (origin != 0)
        node->origin = origin;
    tree->has_origins |= origin != 0;
    *block_of(tree, at, group) = id;
    node->n_blocks++;
    node->n_state += group >= tree->n_groups;
    tree->entries[id] = (struct leaf_entry){.node = at, .group = group};
    tree->n_changes++;
    block_pool_cache(tree->pool, id);
    assert(block_pool_state(tree->pool, id) != BLOCK_CACHED && "the caller holds it");
    prefix_tree_tell(tree, PREFIX_STORED, at, group, id);
}

static bool is_empty(const struct node *node)
{
    return node->n_blocks == 0 && node->n_children == 0;
}

static void evict_first(struct prefix_tree *tree);

/* Only where no group is full: nodes without blocks stand above others. */
static void evict_node(struct prefix_tree *tree, node_id kept)
{
    if (kept != NONE)
        tree->nodes[kept].n_children++;
    while (tree->n_nodes == tree->nodes_max && tree->first != NONE)
        evict_first(tree);
    if (kept != NONE)
        tree->nodes[kept].n_children--;
}

/* NONE: there are nodes_max, and none can be evicted. */
static node_id add_node(struct prefix_tree *tree, struct prefix_hash hash, node_id parent)
{
    if (tree->n_nodes == tree->nodes_max)
        evict_node(tree, parent);
    if (tree->n_nodes == tree->nodes_max)
        return NONE;
    const node_id id = tree->unused[tree->nodes_max - 1 - tree->n_nodes];
    tree->nodes[id] = (struct node){.hash = hash, .parent = parent, .is_in_tree = true};
    for (uint32_t row = 0; row < tree->n_rows; row++)
        *block_of(tree, id, row) = BLOCK_NONE;
    tree->slots[find_slot(tree, hash)] = id;
    tree->n_nodes++;
    if (parent != NONE) {
        tree->nodes[parent].n_children++;
        settle_node(tree, parent);
    }
    prefix_tree_tell_span(tree, PREFIX_STORED, id);
    return id;
}

/* Whether KV that was computed on the caller's blocks of a span may be below the node. */
static bool may_stand_for(const struct prefix_tree *tree, node_id at, const block_id *ids,
                          uint32_t stride)
{
    for (uint32_t group = 0; group < tree->n_groups; group++) {
        const block_id id = ids[(size_t)group * stride];
        if (id == BLOCK_NONE || *block_of(tree, at, group) == id)
            continue;
        const uint64_t origin = block_pool_origin(tree->pool, id);
        if (origin != 0 && !has_origin(tree, at, origin))
            return false;
    }
    return true;
}

/* Those that the node lacks. */
static void fill(struct prefix_tree *tree, node_id at, const block_id *ids, uint32_t stride)
{
    for (uint32_t group = 0; group < tree->n_groups; group++) {
        const block_id id = ids[(size_t)group * stride];
        assert(id != BLOCK_NONE || !is_full(tree, group));
        if (id != BLOCK_NONE && *block_of(tree, at, group) == BLOCK_NONE &&
            tree->entries[id].node == NONE)
            add_block(tree, at, group, id);
    }
}

/* The blocks of a new node have one origin: what a transfer has brought is whole spans. */
static bool have_one_origin(const struct prefix_tree *tree, const block_id *ids, uint32_t stride)
{
    uint64_t origin = 0;
    for (uint32_t group = 0; group < tree->n_groups; group++) {
        const block_id id = ids[(size_t)group * stride];
        const uint64_t of_block = id == BLOCK_NONE ? 0 : block_pool_origin(tree->pool, id);
        if (of_block != 0 && origin != 0 && of_block != origin)
            return false;
        origin = of_block ? of_block : origin;
    }
    return true;
}

static node_id remove_leaf(struct prefix_tree *tree, node_id at);

static bool has_block_of(const struct prefix_tree *tree, node_id at, const block_id *ids,
                         uint32_t stride)
{
    for (uint32_t group = 0; group < tree->n_groups; group++)
        if (ids[(size_t)group * stride] != BLOCK_NONE &&
            ids[(size_t)group * stride] == *block_of(tree, at, group))
            return true;
    return false;
}

/* The spans up to the last one whose node has a block of these: all of them were added before, and are above it. */
static uint32_t n_added(const struct prefix_tree *tree, const struct prefix_hash *hashes,
                        uint32_t n, const block_id *ids, uint32_t stride, node_id *last_out)
{
    for (; n > 0; n--) {
        *last_out = find(tree, hashes[n - 1]);
        if (*last_out != NONE && has_block_of(tree, *last_out, ids + n - 1, stride))
            return n;
    }
    *last_out = NONE;
    return 0;
}

uint32_t prefix_tree_insert(struct prefix_tree *tree, const struct prefix_hash *hashes, uint32_t n,
                            const block_id *ids, uint32_t stride)
{
    node_id parent;
    uint32_t i = n_added(tree, hashes, n, ids, stride, &parent);
    for (; i < n; i++) {
        node_id known = find(tree, hashes[i]);
        if (known == NONE) {
            known = have_one_origin(tree, ids + i, stride) ? add_node(tree, hashes[i], parent)
                                                           : NONE;
            if (known == NONE)
                break;
        } else if (!may_stand_for(tree, known, ids + i, stride)) {
            break;
        }
        fill(tree, known, ids + i, stride);
        parent = known;
    }
    if (parent != NONE && is_empty(&tree->nodes[parent]))
        (void)remove_leaf(tree, parent);
    return i;
}

/* ---- removing ---- */

static void take_block(struct prefix_tree *tree, node_id at, uint32_t row)
{
    block_id *id = block_of(tree, at, row);
    const block_id taken = *id;
    if (taken == BLOCK_NONE)
        return;
    prefix_tree_tell(tree, tree->why, at, row, taken);
    if (tree->entries[taken].is_listed)
        unlist(tree, taken);
    tree->entries[taken].node = NONE;
    tree->entries[taken].is_idle = false;
    *id = BLOCK_NONE;
    tree->nodes[at].n_blocks--;
    tree->nodes[at].n_state -= row >= tree->n_groups;
    tree->n_evicted += tree->why == PREFIX_EVICTED || tree->why == PREFIX_FLUSHED;
    tree->n_changes++;
    block_pool_uncache(tree->pool, taken);
}

static void remove_node(struct prefix_tree *tree, node_id at)
{
    struct node *node = &tree->nodes[at];
    assert(node->is_in_tree && node->n_children == 0 && "from its end upwards");
    for (uint32_t row = 0; row < tree->n_rows; row++)
        take_block(tree, at, row);
    prefix_tree_tell_span(tree, tree->why, at);
    clear_slot(tree, find_slot(tree, node->hash));
    node->is_in_tree = false;
    tree->n_nodes--;
    tree->unused[tree->nodes_max - 1 - tree->n_nodes] = at;
    if (node->parent == NONE)
        return;
    tree->nodes[node->parent].n_children--;
    settle_node(tree, node->parent);
}

/* And the nodes above it that are left without blocks. Returns the next one, or NONE. */
static node_id remove_leaf(struct prefix_tree *tree, node_id at)
{
    do {
        remove_node(tree, at);
        at = tree->nodes[at].parent;
    } while (at != NONE && is_empty(&tree->nodes[at]));
    return at;
}

static void evict_first(struct prefix_tree *tree)
{
    const struct leaf_entry entry = tree->entries[tree->first];
    if (!is_full(tree, entry.group))
        take_block(tree, entry.node, entry.group);
    if (is_full(tree, entry.group) || is_empty(&tree->nodes[entry.node]))
        (void)remove_leaf(tree, entry.node);
}

uint32_t prefix_tree_evict(struct prefix_tree *tree, uint32_t n_free_wanted)
{
    const uint32_t n_before = block_pool_count(tree->pool, BLOCK_FREE);
    while (tree->first != NONE && block_pool_count(tree->pool, BLOCK_FREE) < n_free_wanted)
        evict_first(tree);
    return block_pool_count(tree->pool, BLOCK_FREE) - n_before;
}

/* The node itself, or a node above it. */
static bool is_of(const struct prefix_tree *tree, node_id at, uint64_t origin)
{
    for (; at != NONE; at = tree->nodes[at].parent)
        if (has_origin(tree, at, origin))
            return true;
    return false;
}

static bool is_below(const struct prefix_tree *tree, node_id at, node_id root)
{
    while (at != NONE && at != root)
        at = tree->nodes[at].parent;
    return at == root;
}

/* Removes the leaf at, and what is above it as far as it is wanted, too: of that origin, or (0) below root. */
static void remove_upwards(struct prefix_tree *tree, node_id at, uint64_t origin, node_id root)
{
    while (at != NONE && tree->nodes[at].is_in_tree && tree->nodes[at].n_children == 0 &&
           (origin != 0 ? is_of(tree, at, origin) : is_below(tree, at, root)))
        at = remove_leaf(tree, at);
}

uint32_t prefix_tree_drop(struct prefix_tree *tree, uint64_t origin)
{
    uint32_t n_before = tree->n_nodes;
    assert(origin != 0);
    tree->why = PREFIX_DROPPED;
    for (node_id id = 0; id < tree->nodes_max; id++)
        remove_upwards(tree, id, origin, NONE);
    tree->why = PREFIX_EVICTED;
    return n_before - tree->n_nodes;
}

static void remove_subtree(struct prefix_tree *tree, node_id root)
{
    for (node_id id = 0; id < tree->nodes_max; id++)
        remove_upwards(tree, id, 0, root);
    assert(!tree->nodes[root].is_in_tree);
}

uint32_t prefix_tree_uproot(struct prefix_tree *tree, uint32_t n_free_wanted)
{
    uint32_t n_before = tree->n_nodes;
    for (block_id id = 0; id < block_pool_size(tree->pool); id++) {
        if (block_pool_count(tree->pool, BLOCK_FREE) >= n_free_wanted)
            break;
        if (tree->entries[id].node != NONE && tree->entries[id].is_idle)
            remove_subtree(tree, tree->entries[id].node);
    }
    return n_before - tree->n_nodes;
}

uint32_t prefix_tree_forget(struct prefix_tree *tree, struct prefix_hash hash)
{
    uint32_t n_before = tree->n_nodes;
    node_id id = find(tree, hash);
    tree->why = PREFIX_FORGOTTEN;
    if (id != NONE)
        remove_subtree(tree, id);
    tree->why = PREFIX_EVICTED;
    return n_before - tree->n_nodes;
}

uint32_t prefix_tree_flush(struct prefix_tree *tree)
{
    tree->why = PREFIX_FLUSHED;
    const uint32_t n_evicted = prefix_tree_evict(tree, block_pool_size(tree->pool));
    tree->why = PREFIX_EVICTED;
    return n_evicted;
}

/* ---- states ---- */

bool prefix_tree_has_state(const struct prefix_tree *tree, struct prefix_hash hash)
{
    const node_id at = find(tree, hash);
    return at != NONE && has_state(tree, at);
}

bool prefix_tree_add_state(struct prefix_tree *tree, struct prefix_hash hash, uint64_t origin,
                           uint32_t first, uint32_t n, const block_id *ids)
{
    const node_id at = find(tree, hash);
    assert(first + n <= tree->groups.n_state);
    if (at == NONE || (origin != 0 && !is_of(tree, at, origin)))
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (*block_of(tree, at, tree->n_groups + first + i) == BLOCK_NONE)
            add_block(tree, at, tree->n_groups + first + i, ids[i]);
    return true;
}

void prefix_tree_take_state(struct prefix_tree *tree, struct prefix_hash hash)
{
    const node_id at = find(tree, hash);
    assert(at != NONE && has_state(tree, at));
    for (uint32_t row = tree->n_groups; row < tree->n_rows; row++)
        take_block(tree, at, row);
}

/* ---- for tiers ---- */

/* Where no group is full, spans before a window have no blocks: their nodes are made. NONE: there is no way to make them, or
 * where a group is full, the span is missing. */
static node_id find_parent(struct prefix_tree *tree, const struct prefix_hash *hashes, uint32_t at)
{
    node_id parent = NONE;
    if (tree->has_full)
        return find(tree, hashes[at - 1]);
    for (uint32_t i = 0; i < at; i++) {
        const node_id above = parent;
        parent = find(tree, hashes[i]);
        if (parent == NONE)
            parent = add_node(tree, hashes[i], above);
        if (parent != NONE)
            continue;
        if (above != NONE && is_empty(&tree->nodes[above]))
            (void)remove_leaf(tree, above);
        return NONE;
    }
    return parent;
}

/* A new node has a block of each full group. */
static bool may_be_new(const struct prefix_tree *tree, const block_id *ids)
{
    for (uint32_t group = 0; group < tree->n_groups && is_full(tree, group); group++)
        if (ids[group] == BLOCK_NONE)
            return false;
    return have_one_origin(tree, ids, 1);
}

bool prefix_tree_add(struct prefix_tree *tree, const struct prefix_hash *hashes, uint32_t at,
                     const block_id *ids)
{
    const node_id parent = at == 0 ? NONE : find_parent(tree, hashes, at);
    if (at > 0 && parent == NONE)
        return false;
    node_id known = find(tree, hashes[at]);
    if (known == NONE)
        known = may_be_new(tree, ids) ? add_node(tree, hashes[at], parent) : NONE;
    else if (!may_stand_for(tree, known, ids, 1))
        known = NONE;
    for (uint32_t group = 0; known != NONE && group < tree->n_groups; group++)
        if (ids[group] != BLOCK_NONE && *block_of(tree, known, group) == BLOCK_NONE &&
            tree->entries[ids[group]].node == NONE)
            add_block(tree, known, group, ids[group]);
    const node_id last = known == NONE ? parent : known;
    if (last != NONE && is_empty(&tree->nodes[last]))
        (void)remove_leaf(tree, last);
    return known != NONE;
}

uint32_t prefix_tree_count(const struct prefix_tree *tree)
{
    return tree->n_nodes;
}

uint64_t prefix_tree_changes(const struct prefix_tree *tree)
{
    return tree->n_changes;
}
