/*
 * token_spelling - the bytes of a model's tokens as constraints see them, and its encoder for a piece of a reply.
 *
 *     texts     tokens that are text, by their bytes
 *     specials  special tokens and the ends: SPELLING_SPECIAL and their text, so that no text has them
 *     holes     no bytes: never part of a text: padding, ids without a token, bytes that no UTF-8 has
 *
 * A piece stands somewhere in a text: no BOS, no blank that an encoder puts in front of a text.
 *
 * Thread: immutable once created, any number of threads may use one.
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPELLING_WINDOW_MIN 512
#define SPELLING_WINDOW_MAX 4096
#define SPELLING_SPECIAL    0xFF /* the first byte of a special token's: llguidance's mark */

struct tokenizer;

struct token_spelling {
    const struct tokenizer *tokenizer;
    uint32_t n_ids; /* of the logits */
    uint32_t n_texts;
    uint32_t *lengths; /* [n_ids] */
    uint32_t *starts;  /* [n_ids] in bytes */
    uint8_t *bytes;
    uint32_t *texts;   /* [n_texts] ids by their bytes; of equal ones the highest first */
    bool spells_ascii; /* each printable character of ASCII can be spelled */
    uint32_t n_lead;   /* tokens of lead; 0: the encoder puts nothing before a text */
    char lead;
    uint32_t window; /* bytes of a piece that are looked at */
};

/* Bytes of tokens that are no special ones begin with no SPELLING_SPECIAL. NO_MEMORY. */
MUST_CHECK enum status token_spelling_create(const struct tokenizer *tokenizer, uint32_t n_ids,
                                             const uint32_t *ends, uint32_t n_ends,
                                             struct token_spelling **spelling_out);
void token_spelling_destroy(struct token_spelling *spelling); /* NULL is fine */

/* The tokens of a piece, which may begin and end within a character, or of what its window shows. Their bytes are those of the piece
 * up to there, or to where no token has the next byte: where the encoder would change it, the longest token that fits is taken.
 * Returns how many there are, also when more than ids_max. Only if spells_ascii. */
size_t token_spelling_encode(const struct token_spelling *spelling, const uint8_t *piece,
                             size_t n_bytes, uint32_t *ids_out, size_t ids_max);
