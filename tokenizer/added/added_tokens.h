/*
 * added_tokens - finds the tokens of added_tokens in a text.
 *
 * Two sets: those looked for in the text as it is, and those (normalized: true) looked for in the
 * normalized rest. At each place the longest wins.
 *
 * Thread: immutable once built.
 */
#pragma once

#include "base/status.h"
#include "tokenizer/added/special_barriers.h"
#include "tokenizer/added/special_tokens.h"
#include "tokenizer/vocab/byte_tree.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct field;
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

struct added_tokens {
    struct added_token *tokens;
    uint32_t n_tokens;
    struct byte_tree plain; /* number: index in tokens */
    struct byte_tree normalized;
    bool has_normalized_special; /* a special one is in normalized */
    struct special_tokens special;
    struct split_pattern *word; /* one word character */
};

/* Reads added_tokens; the contents of the normalized ones are normalized as well. CORRUPT: error names
 * the field. NO_MEMORY. On failure nothing is kept. */
MUST_CHECK enum status added_tokens_init(struct added_tokens *added, const struct field *field,
                                         const struct normalizer *normalizer, struct error *error);
void added_tokens_finish(struct added_tokens *added); /* a zeroed one is fine */

/* A walk over text: the texts between tokens, and the tokens. Set the first seven members, the rest
 * to zero. */
struct added_search {
    const struct added_tokens *added;
    const struct byte_tree *set;
    struct split_matcher *matcher;
    bool skip_special; /* special tokens are text like any other */
    struct special_barriers
        barriers;     /* so are those that one of these splits; places in this text */
    const char *text; /* UTF-8, valid */
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
