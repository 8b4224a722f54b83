/*
 * byte_tree - texts as a tree of their bytes, each with a number; a node's children are a list.
 *
 * Room for as many nodes as the texts have bytes. A zeroed one is empty, and may be searched.
 * Thread: immutable once built.
 */
#pragma once

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

#define BYTE_TREE_ROOT   0u
#define BYTE_TREE_NO_WAY 0u         /* the root is nobody's child */
#define BYTE_TREE_NONE   UINT32_MAX /* no text ends here */

struct byte_tree_node;

struct byte_tree {
    struct byte_tree_node *nodes; /* [n_nodes], the root first; NULL: empty */
    size_t n_nodes;
    size_t nodes_max;
};

/* CORRUPT: the text is there already, with its number. NO_MEMORY. */
MUST_CHECK enum status byte_tree_add(struct byte_tree *tree, const char *text, size_t n_bytes,
                                     uint32_t number);
void byte_tree_finish(struct byte_tree *tree);

/* The child of node, or NO_WAY; the tree is not empty. */
uint32_t byte_tree_step(const struct byte_tree *tree, uint32_t node, uint8_t byte);
uint32_t byte_tree_number(const struct byte_tree *tree,
                          uint32_t node); /* of the text that ends there */
