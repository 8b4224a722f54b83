/*
 * added_tokens - finds the tokens of added_tokens in a text.
 *
 * Two sets: those looked for in the text as it is, and those (normalized: true) looked for in the
 * normalized rest. At each place the longest wins. A set is a tree of bytes, a node's children in
 * a list: room for as many nodes as the tokens have bytes.
 *
 * Thread: immutable once built.
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct field;
struct added_node;
struct normalizer;
struct split_pattern;
struct split_matcher;

struct added_token {
    uint32_t id;
    bool special;
    bool single_word; /* only if no word character is next to it */
    bool lstrip;      /* takes the white space before it too */
    bool rstrip;      /* and after it */
};

struct added_set {
    struct added_node *nodes; /* [n_nodes], the root first; NULL: nothing to find */
    size_t n_nodes;
    size_t nodes_max;
};

struct added_tokens {
    struct added_token *tokens;
    uint32_t n_tokens;
    struct added_set plain;
    struct added_set normalized;
    struct split_pattern *word; /* one word character */
};

/* Reads added_tokens; the contents of the normalized ones are normalized as well. CORRUPT: error names
 * the field. NO_MEMORY. On failure nothing is kept. */
MUST_CHECK enum status added_tokens_init(struct added_tokens *added, const struct field *field,
                                         const struct normalizer *normalizer, struct error *error);
void added_tokens_finish(struct added_tokens *added); /* a zeroed one is fine */

/* A walk over text: the texts between tokens, and the tokens. Set the first six members, the rest
 * to zero. */
struct added_search {
    const struct added_tokens *added;
    const struct added_set *set;
    struct split_matcher *matcher;
    bool skip_special; /* special tokens are text like any other */
    const char *text;  /* UTF-8, valid */
    size_t n_bytes;
    size_t at;
    size_t done; /* text before this belongs to tokens or has been given */
    size_t
        white_until; /* what lies between at and this is white space, known from an earlier token */
};

/* The next token, and the text before it (perhaps empty). id TOKEN_NONE: it was the last text. Fails
 * as split_pattern_next does. */
MUST_CHECK enum status added_search_next(struct added_search *search, struct error *error,
                                         size_t text_out[2], uint32_t *id_out);
