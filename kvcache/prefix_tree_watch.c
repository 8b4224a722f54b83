/* Who watches a prefix tree, and what a tier asks of it. */
#include "kvcache/prefix_tree_state.h"

static uint64_t origin_of_chain(const struct prefix_tree *tree, node_id at)
{
    uint64_t origin = 0;
    for (; tree->has_origins && at != NONE; at = tree->nodes[at].parent) {
        const uint64_t own = tree->nodes[at].origin;
        if (own != 0 && origin != 0 && own != origin)
            return PREFIX_ORIGINS_MIXED;
        if (own != 0)
            origin = own;
    }
    return origin;
}

void prefix_tree_tell(const struct prefix_tree *tree, enum prefix_reason reason, node_id at,
                      uint32_t row, block_id id)
{
    const struct node *node = &tree->nodes[at];
    if (!tree->observer)
        return;
    struct prefix_change change = {.reason = reason,
                                   .hash = node->hash,
                                   .group = row,
                                   .id = id,
                                   .is_idle = tree->entries[id].is_idle};
    if (node->parent != NONE)
        change.parent = tree->nodes[node->parent].hash;
    if (reason != PREFIX_STORED)
        change.origin = origin_of_chain(tree, at);
    tree->observer(tree->observer_arg, &change);
}

void prefix_tree_observe(struct prefix_tree *tree, prefix_observer observer, void *arg)
{
    tree->observer = observer;
    tree->observer_arg = arg;
}

void prefix_tree_tell_span(const struct prefix_tree *tree, enum prefix_reason reason, node_id at)
{
    const struct node *node = &tree->nodes[at];
    if (!tree->span_observer)
        return;
    struct prefix_span_change change = {.reason = reason, .hash = node->hash, .span = at};
    if (node->parent != NONE)
        change.parent = tree->nodes[node->parent].hash;
    tree->span_observer(tree->span_observer_arg, &change);
}

void prefix_tree_observe_spans(struct prefix_tree *tree, prefix_span_observer observer, void *arg)
{
    tree->span_observer = observer;
    tree->span_observer_arg = arg;
}

/* ---- what is there ---- */

uint32_t prefix_tree_spans_max(const struct prefix_tree *tree)
{
    return tree->nodes_max;
}

uint64_t prefix_tree_evictions(const struct prefix_tree *tree)
{
    return tree->n_evicted;
}

bool prefix_tree_has(const struct prefix_tree *tree, struct prefix_hash hash, uint32_t group)
{
    const node_id at = find(tree, hash);
    return at != NONE && *block_of(tree, at, group) != BLOCK_NONE;
}

uint32_t prefix_tree_touch(struct prefix_tree *tree, const struct prefix_hash *hashes, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const node_id at = find(tree, hashes[i]);
        if (at == NONE)
            return i;
        const uint32_t n_rows = i + 1 < n ? tree->n_groups : tree->n_rows;
        for (uint32_t row = 0; row < n_rows; row++) {
            const block_id id = *block_of(tree, at, row);
            if (id == BLOCK_NONE || !tree->entries[id].is_idle)
                continue;
            block_pool_share(tree->pool, &id, 1);
            block_pool_release(tree->pool, &id, 1);
        }
    }
    return n;
}
