/*
 * charsmap - Precompiled of tokenizer.json: the table by which SentencePiece normalizes text, usually NFKC with changes.
 *
 *     u32 LE           n, the bytes of the trie
 *     trie             [n / 4] u32 LE: a double array, as Darts-clone writes it
 *     texts            [rest] what characters become, each ended by a NUL; the trie's values are offsets in them
 *
 * Of a grapheme of up to five bytes the trie is asked with all of it, else with each of its characters. What is found of the
 * shortest beginning replaces the whole: so the tokenizers package does it, and so it is for a tokenizer.json. SentencePiece itself
 * replaces the longest beginning of what is left of the text, and so it is for a model of its own.
 *
 * Thread: immutable once read.
 */
#pragma once

#include "base/status.h"
#include "tokenizer/normalizer/replacement.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct field;

struct charsmap {
    uint8_t *bytes; /* [n_bytes] the table, without its first number; NULL: none, nothing changes */
    size_t n_units; /* of the trie */
    size_t n_bytes;
    bool takes_longest; /* as SentencePiece */
    bool is_same[128];  /* a character of ASCII alone stays */
};

/* Reads {"precompiled_charsmap": base64, "takes_longest": false}. CORRUPT: error names the field. NO_MEMORY. On failure nothing is kept. */
MUST_CHECK enum status charsmap_init(struct charsmap *charsmap, const struct field *field,
                                     struct error *error);
void charsmap_finish(struct charsmap *charsmap); /* a zeroed one is fine */

/* Fails as rewritten_append does; the text is then as it was. */
MUST_CHECK enum status charsmap_apply(const struct charsmap *charsmap, struct rewritten *text_inout,
                                      struct error *error);
