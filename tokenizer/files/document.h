/*
 * document - parts of a tokenizer.json that is made of another file.
 *
 * Functions return new values, or NULL without memory, which jansson's own then refuse to take.
 * Thread: any; no state.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DOCUMENT_SPACE "\xe2\x96\x81" /* U+2581, which SentencePiece writes for a space */

struct document_token {
    uint64_t id;
    const char *text; /* UTF-8; NULL: no token */
    size_t n_bytes;
};

/* One of added_tokens, found in the text as it is. */
json_t *document_added_token(const struct document_token *token, bool is_special);

/* SentencePiece's spaces: the normalizers that write them, in an array, and the decoder that takes them back. prepends: a text begins
 * with one. */
json_t *document_space_normalizers(bool prepends);
json_t *document_space_decoder(bool prepends);

/* ByteLevel, as pre_tokenizer and decoder; splits: by GPT-2's pattern. */
json_t *document_byte_level(bool splits);
json_t *document_split(const char *pattern);

/* {"type": "Sequence", name: members}; takes members. */
json_t *document_sequence(const char *name, json_t *members);

/* The post_processor that puts tokens around a text; null if there is neither. */
json_t *document_template(const struct document_token *before, const struct document_token *after);
