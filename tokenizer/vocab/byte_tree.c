#include "tokenizer/vocab/byte_tree.h"

#include <assert.h>
#include <stdlib.h>

struct byte_tree_node {
    uint32_t child;   /* the first */
    uint32_t sibling; /* the next child of the same node */
    uint32_t number;
    uint8_t byte;
};

uint32_t byte_tree_step(const struct byte_tree *tree, uint32_t node, uint8_t byte)
{
    uint32_t child = tree->nodes[node].child;
    while (child != BYTE_TREE_NO_WAY && tree->nodes[child].byte != byte)
        child = tree->nodes[child].sibling;
    return child;
}

uint32_t byte_tree_number(const struct byte_tree *tree, uint32_t node)
{
    return tree->nodes[node].number;
}

static uint32_t add_node(struct byte_tree *tree, uint32_t parent, uint8_t byte)
{
    assert(tree->n_nodes < tree->nodes_max);
    uint32_t node = (uint32_t)tree->n_nodes++;
    tree->nodes[node] = (struct byte_tree_node){.number = BYTE_TREE_NONE, .byte = byte};
    if (node != BYTE_TREE_ROOT) {
        tree->nodes[node].sibling = tree->nodes[parent].child;
        tree->nodes[parent].child = node;
    }
    return node;
}

/* Grows the tree by room for one text; the root comes with the first. */
static enum status reserve(struct byte_tree *tree, size_t n_bytes)
{
    if (tree->n_nodes + n_bytes + 1 > tree->nodes_max) {
        size_t nodes_max = 2 * tree->nodes_max + n_bytes + 1;
        struct byte_tree_node *nodes = realloc(tree->nodes, nodes_max * sizeof *nodes);
        if (!nodes)
            return STATUS_NO_MEMORY;
        tree->nodes = nodes;
        tree->nodes_max = nodes_max;
    }
    if (tree->n_nodes == 0)
        add_node(tree, BYTE_TREE_ROOT, 0);
    return STATUS_OK;
}

enum status byte_tree_add(struct byte_tree *tree, const char *text, size_t n_bytes, uint32_t number)
{
    uint32_t node = BYTE_TREE_ROOT;
    TRY(reserve(tree, n_bytes));
    for (size_t i = 0; i < n_bytes; i++) {
        uint32_t child = byte_tree_step(tree, node, (uint8_t)text[i]);
        node = child != BYTE_TREE_NO_WAY ? child : add_node(tree, node, (uint8_t)text[i]);
    }
    if (tree->nodes[node].number != BYTE_TREE_NONE)
        return STATUS_CORRUPT;
    tree->nodes[node].number = number;
    return STATUS_OK;
}

void byte_tree_finish(struct byte_tree *tree)
{
    free(tree->nodes);
    *tree = (struct byte_tree){0};
}
