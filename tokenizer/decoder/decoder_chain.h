/*
 * decoder_chain - the decoder of tokenizer.json, read: what it does with each token, and what with the text.
 *
 *     ByteLevel          (then Fuse) tokens are bytes
 *     WordPiece          words with a space between them; a token with the prefix goes on with the word
 *     BPEDecoder         a token with the suffix ends a word
 *     CTC                a token that comes again at once is left out, and so is the padding; the delimiter is a space
 *     none               a space between all tokens
 *     else, in this order, each of which need not be there:
 *         Replace, Strip    on each token alone
 *         ByteFallback      a run of tokens <0xHH> is text when it is UTF-8, else a U+FFFD each
 *         Replace, Strip    on each other token alone, and on each run
 *         Metaspace         before ByteFallback or behind it: its character is a space; of the first token it is left out
 *         Fuse
 *     behind ByteLevel or Fuse: Replace of a text, Strip, Metaspace on the text as a whole
 *
 * Thread: immutable once read.
 */
#pragma once

#include "base/status.h"
#include "tokenizer/decoder/text_steps.h"
#include "tokenizer/normalizer/replacement.h"
#include "tokenizer/vocab/affix.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DECODER_EDITS_MAX 8

struct field;

enum decoder_kind {
    DECODER_PIECES,
    DECODER_BYTES,
    DECODER_WORDPIECE,
    DECODER_SUFFIX,
    DECODER_CTC,
    DECODER_SPACED
};

/* Of characters at the start and at the end of a token; n 0: none. */
struct decoder_strip {
    char character[4];
    size_t n; /* bytes of the character */
    uint32_t start_max, stop_max;
};

/* Replace, or Strip where the replacement has no pattern. */
struct decoder_edit {
    struct replacement replacement;
    struct decoder_strip strip;
};

struct decoder_chain {
    enum decoder_kind kind;
    struct decoder_edit edits[DECODER_EDITS_MAX];
    unsigned n_edits;
    unsigned n_first_edits; /* before ByteFallback */
    bool byte_fallback;
    bool drops_first; /* Metaspace leaves out its character of the first token */
    char space[4];    /* [n_space] Metaspace's character; n_space 0: there is none */
    size_t n_space;
    bool spaces_runs;        /* Metaspace's character is a space in runs, too */
    struct text_steps runs;  /* Replace and Strip on runs; the edits have them for other tokens */
    struct text_steps whole; /* on the text as a whole */
    struct affix affix;      /* WordPiece's prefix, BPEDecoder's suffix, CTC's padding */
    struct affix delimiter;  /* CTC's, of words; only if it cleans up */
    bool cleans_up;          /* WordPiece, CTC: no space before some punctuation */
};

/* Whether the decoder takes bytes: ByteLevel, or a Sequence that begins with it. */
bool decoder_takes_bytes(const struct field *decoder);

/* CORRUPT, UNSUPPORTED: error names the field. NO_MEMORY. What was read stays in chain, also on failure. */
MUST_CHECK enum status decoder_chain_read(struct decoder_chain *chain, const struct field *decoder,
                                          struct error *error);
void decoder_chain_finish(struct decoder_chain *chain); /* a zeroed one is fine */
