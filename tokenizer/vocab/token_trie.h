/*
 * token_trie - the tokens of model.vocab as a tree of their bytes: which of them does a text begin with?
 *
 *     first     [n_nodes + 1]    node's children are first[node] .. first[node + 1] - 1, next to each other
 *     bytes     [n_nodes]        the byte that leads to a node
 *     numbers   [n_nodes]        the token that ends there, or TOKEN_NONE
 *
 * Nine bytes a node, at most one node for each byte of the tokens.
 * Thread: immutable once built.
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOKEN_TRIE_ROOT   0u
#define TOKEN_TRIE_NO_WAY 0u /* the root is nobody's child */

struct vocab;

struct token_trie {
    uint32_t *first;
    uint8_t *bytes;
    uint32_t *numbers;
    uint32_t n_nodes;
};

/* Of the tokens that are not in added_tokens alone; of several with the same bytes the one that vocab_find gives. has_bytes: those of
 * bytes, <0xHH>, too. NO_MEMORY: then nothing is kept. */
MUST_CHECK enum status token_trie_init(struct token_trie *trie, const struct vocab *vocab,
                                       bool has_bytes);
void token_trie_finish(struct token_trie *trie); /* a zeroed one is fine */

/* The child of node by byte, or NO_WAY. */
uint32_t token_trie_step(const struct token_trie *trie, uint32_t node, uint8_t byte);
