/*
 * vocab - the bytes of every token id, and the id of bytes.
 *
 *     bytes    [sum of lengths]    all tokens in one run, in the order of their ids
 *     starts   [n_ids + 1]         where id's bytes begin
 *     flags    [n_ids]             enum token_flag
 *     slots    [2^k]               open addressing: id or TOKEN_NONE; at most half full.
 *
 * Of a byte-level vocabulary tokens whose text is of the byte alphabet are kept as the bytes they
 * stand for; all others are kept as they are written. Tokens that are in added_tokens alone are found
 * by vocab_find_added only.
 *
 * Thread: immutable once built.
 */
#pragma once

#include "base/status.h"

#include <assert.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct field;

enum token_flag {
    TOKEN_FLAG_BYTE_LEVEL = 1, /* the text was of the byte alphabet */
    TOKEN_FLAG_SPECIAL = 2,
    TOKEN_FLAG_ADDED = 4,      /* in added_tokens */
    TOKEN_FLAG_ADDED_ONLY = 8, /* and not in model.vocab */
    TOKEN_FLAG_HOLE = 16,      /* no token has this id: no bytes, and never found */
};

struct vocab {
    bool is_byte_level;
    uint32_t n_ids;
    uint32_t slot_mask;
    uint8_t *bytes;
    uint32_t *starts;
    uint8_t *flags;
    uint32_t *slots;
    uint32_t byte_ids[256];     /* the token of each single byte, perhaps TOKEN_NONE */
    uint32_t fallback_ids[256]; /* "<0x00>" to "<0xFF>", perhaps TOKEN_NONE */
};

/* Reads model.vocab, an object, and added_tokens. No id may have two tokens; one below the highest may have none.
 * CORRUPT, UNSUPPORTED: error names the field. NO_MEMORY. */
MUST_CHECK enum status vocab_create(const struct field *vocab_field,
                                    const struct field *added_field, bool is_byte_level,
                                    struct error *error, struct vocab **vocab_out);

/* Takes a half-built one, and NULL. */
void vocab_destroy(struct vocab *vocab);

/* The id of a token of model.vocab; TOKEN_NONE when there is none. */
uint32_t vocab_find(const struct vocab *vocab, const uint8_t *bytes, size_t n_bytes);

/* The same by the text in which tokenizer.json writes it. */
uint32_t vocab_find_text(const struct vocab *vocab, const char *text, size_t n_bytes);

/* The same of a token that is in added_tokens alone; of several with that text, the lowest id. */
uint32_t vocab_find_added(const struct vocab *vocab, const char *text, size_t n_bytes);

static inline const uint8_t *vocab_bytes(const struct vocab *vocab, uint32_t id, size_t *n_bytes)
{
    assert(id < vocab->n_ids);
    *n_bytes = vocab->starts[id + 1] - vocab->starts[id];
    return vocab->bytes + vocab->starts[id];
}
