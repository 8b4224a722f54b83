/*
 * token_texts - the text of each token by the decoder of tokenizer.json, computed while loading.
 *
 * What a decoder does on a token alone is done here, once for all tokens; what depends on the tokens before, token_decoder does.
 *
 * Thread: immutable once read.
 */
#pragma once

#include "base/status.h"
#include "tokenizer/decoder/decoder_chain.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct field;
struct vocab;

/* A text for each id, one after the other. */
struct text_table {
    uint8_t *bytes;
    uint32_t *starts; /* [n_ids + 1] */
};

struct token_texts {
    bool
        is_byte_level; /* texts are bytes, which make characters together; those of the vocabulary, if there is no table */
    struct text_table all;
    struct text_table first; /* as the first token of a text; starts NULL: no different */
    bool *is_byte;   /* [n_ids] a text of one byte, of a token <0xHH>; NULL when byte-level */
    bool *ends_word; /* [n_ids] a space follows, if a token does; NULL: of none */
    bool leaves_out_repeats; /* CTC: of the same token several times in a row one is text */
    bool drops_first;        /* Metaspace leaves out its character of the first token */
    char space[4];           /* [n_space] Metaspace's character */
    size_t n_space;          /* 0: there is none */
    bool spaces_runs;        /* it is a space in runs of byte tokens, too */
    struct text_steps runs;  /* what is done with each of these runs */
    struct text_steps whole; /* with the whole text */
};

/* Reads decoder, for the tokens of vocab. CORRUPT, UNSUPPORTED: error names the field. NO_MEMORY. On
 * failure nothing is kept. */
MUST_CHECK enum status token_texts_init(struct token_texts *texts, const struct field *decoder,
                                        const struct vocab *vocab, struct error *error);
void token_texts_finish(struct token_texts *texts); /* a zeroed one is fine */
