#include "tokenizer/pieces/wordpiece.h"

#include "base/utf8.h"

#include <assert.h>

/* The longest token at the start of text, of those below node. Returns its bytes; 0: there is none. */
static size_t longest(const struct token_trie *trie, uint32_t node, const uint8_t *text,
                      size_t n_bytes, uint32_t *id_out)
{
    size_t n_longest = 0;

    for (size_t i = 0; i < n_bytes; i++) {
        node = token_trie_step(trie, node, text[i]);
        if (node == TOKEN_TRIE_NO_WAY)
            break;
        if (trie->numbers[node] == TOKEN_NONE)
            continue;
        *id_out = trie->numbers[node];
        n_longest = i + 1;
    }
    return n_longest;
}

/* False: no token is at some place. Puts nothing if tokens is NULL. */
static bool cut(const struct wordpiece *wordpiece, const uint8_t *word, size_t n_bytes,
                struct token_buffer *tokens)
{
    for (size_t at = 0, n; at < n_bytes; at += n) {
        uint32_t id, node = TOKEN_TRIE_ROOT;
        if (at > 0 && wordpiece->has_prefix) {
            node = wordpiece->continued;
            if (node == TOKEN_TRIE_NO_WAY)
                return false;
        }
        n = longest(wordpiece->trie, node, word + at, n_bytes - at, &id);
        if (n == 0)
            return false;
        if (tokens)
            token_buffer_put(tokens, id);
    }
    return true;
}

enum status wordpiece_encode(const struct wordpiece *wordpiece, const uint8_t *word, size_t n_bytes,
                             struct token_buffer *tokens)
{
    assert(n_bytes > 0);
    if (utf8_count((const char *)word, n_bytes) <= wordpiece->characters_max &&
        cut(wordpiece, word, n_bytes, NULL)) {
        cut(wordpiece, word, n_bytes, tokens);
        return STATUS_OK;
    }
    if (wordpiece->unk_id == TOKEN_NONE)
        return STATUS_INVALID_ARGUMENT;
    token_buffer_put(tokens, wordpiece->unk_id);
    return STATUS_OK;
}
