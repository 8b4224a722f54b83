/*
 * token_texts - the text of each token by the decoder of tokenizer.json, computed while loading.
 *
 * A byte-level decoder leaves a token's bytes as they are. Any other is a chain in this order:
 *
 *     Replace, Strip    on each token alone: done here, once for all tokens
 *     ByteFallback      a run of tokens <0xHH> is text when it is UTF-8, else a U+FFFD each
 *     Metaspace         its character is a space; of the first token it is left out
 *     Fuse, Strip       leave out what the whole text begins with
 *
 * The last three depend on what came before: token_decoder does them.
 *
 * Thread: immutable once read.
 */
#pragma once

#include "base/status.h"
#include "tokenizer/splitter.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct field;
struct vocab;

struct token_texts {
    bool is_byte_level;
    bool byte_fallback;
    bool drops_first; /* Metaspace leaves out its character of the first token */
    /* UTF-8 of one character each; no bytes: there is none. */
    size_t n_space;
    size_t n_strip;
    char space[4]; /* Metaspace's character */
    char strip[4]; /* what is left out at the start of the text, strip_max times at most */
    uint32_t strip_max;
    /* NULL when byte-level. A text of one byte at most if it is a token <0xHH>, then is_byte. */
    uint8_t *bytes;
    uint32_t *starts; /* [n_ids + 1] */
    bool *is_byte;    /* [n_ids] */
};

/* Reads decoder, for the tokens of vocab. CORRUPT, UNSUPPORTED: error names the field. NO_MEMORY. On
 * failure nothing is kept. */
MUST_CHECK enum status token_texts_init(struct token_texts *texts, const struct field *decoder,
                                        const struct vocab *vocab, struct error *error);
void token_texts_finish(struct token_texts *texts); /* a zeroed one is fine */
