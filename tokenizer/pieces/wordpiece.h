/*
 * wordpiece - one word to token ids: from the left the longest token each time; those behind the first are written with a
 * prefix ("##"). A word that cannot be cut so, or is too long, is the unknown token.
 *
 * Thread: any; what it points to is only read.
 */
#pragma once

#include "base/status.h"
#include "tokenizer/tokens.h"
#include "tokenizer/vocab/token_trie.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wordpiece {
    const struct token_trie *trie;
    uint32_t
        continued;   /* the trie's node of the prefix; TOKEN_TRIE_NO_WAY: no token begins with it */
    bool has_prefix; /* else a word goes on at the root */
    uint32_t unk_id; /* TOKEN_NONE: such a word is an error */
    uint64_t characters_max;
};

/* Appends the ids of the word, UTF-8, to tokens. INVALID_ARGUMENT: it would be the unknown token, and there is none. */
MUST_CHECK enum status wordpiece_encode(const struct wordpiece *wordpiece, const uint8_t *word,
                                        size_t n_bytes, struct token_buffer *tokens);
