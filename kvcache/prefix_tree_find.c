/* What a prefix tree has of a prompt. */
#include "kvcache/prefix_tree_state.h"

/* Of the first n spans, how many form a prefix that the token behind them can be computed on; with_state false: if it is, layers with
 * recurrent state apart. */
static uint32_t find_spans(const struct prefix_tree *tree, const struct prefix_hash *hashes,
                           uint32_t n, bool with_state)
{
    uint32_t runs[CACHE_GROUPS_MAX] = {0}; /* spans up to here with a block, without a gap */
    uint32_t known = 0;
    for (uint32_t i = 0; i < n; i++) {
        const node_id node = find(tree, hashes[i]);
        bool is_enough = true;
        if (node == NONE)
            break;
        for (uint32_t group = 0; group < tree->n_groups; group++) {
            runs[group] = *block_of(tree, node, group) == BLOCK_NONE ? 0 : runs[group] + 1;
            const uint32_t first = cache_group_first_span(&tree->groups, group, tree->block_tokens,
                                                          (i + 1) * tree->block_tokens);
            is_enough = is_enough && runs[group] >= i + 1 - first;
        }
        if (is_enough && (!with_state || has_state(tree, node)))
            known = i + 1;
    }
    return known;
}

static uint32_t find_prefix(const struct prefix_tree *tree, const struct prefix_hash *hashes,
                            uint32_t n)
{
    return find_spans(tree, hashes, n, true);
}

uint32_t prefix_tree_reach(const struct prefix_tree *tree, const struct prefix_hash *hashes,
                           uint32_t n)
{
    return find_spans(tree, hashes, n, false);
}

uint32_t prefix_tree_peek(const struct prefix_tree *tree, const struct prefix_hash *hashes,
                          uint32_t n)
{
    return find_prefix(tree, hashes, n);
}

uint32_t prefix_tree_peek_held(const struct prefix_tree *tree, const struct prefix_hash *hashes,
                               uint32_t n, uint32_t n_lasting, uint32_t *held_out)
{
    const uint32_t known = find_prefix(tree, hashes, n);
    uint32_t n_held = 0;
    for (uint32_t i = 0; i < known && i < n_lasting && tree->has_full; i++) {
        const node_id node = find(tree, hashes[i]);
        for (uint32_t group = 0; group < tree->n_groups && is_full(tree, group); group++)
            n_held += !tree->entries[*block_of(tree, node, group)].is_idle;
    }
    *held_out = n_held;
    return known;
}

/* The known spans of a prefix get one more holder. */
static uint32_t share(const struct prefix_tree *tree, const struct prefix_hash *hashes,
                      uint32_t known, block_id *ids_out, uint32_t stride)
{
    for (uint32_t group = 0; group < tree->n_groups; group++) {
        block_id *ids = ids_out + (size_t)group * stride;
        const uint32_t first = cache_group_first_span(&tree->groups, group, tree->block_tokens,
                                                      known * tree->block_tokens);
        for (uint32_t i = first; i < known; i++)
            ids[i] = *block_of(tree, find(tree, hashes[i]), group);
        block_pool_share(tree->pool, ids + first, known - first);
    }
    return known;
}

uint32_t prefix_tree_match(struct prefix_tree *tree, const struct prefix_hash *hashes, uint32_t n,
                           block_id *ids_out, uint32_t stride)
{
    return share(tree, hashes, find_prefix(tree, hashes, n), ids_out, stride);
}

uint32_t prefix_tree_match_spans(struct prefix_tree *tree, const struct prefix_hash *hashes,
                                 uint32_t n, block_id *ids_out, uint32_t stride)
{
    return share(tree, hashes, prefix_tree_reach(tree, hashes, n), ids_out, stride);
}

void prefix_tree_share_state(struct prefix_tree *tree, struct prefix_hash hash, block_id *ids_out)
{
    const node_id node = find(tree, hash);
    assert(node != NONE && has_state(tree, node));
    for (uint32_t row = tree->n_groups; row < tree->n_rows; row++)
        *ids_out++ = *block_of(tree, node, row);
    block_pool_share(tree->pool, ids_out - tree->groups.n_state, tree->groups.n_state);
}
