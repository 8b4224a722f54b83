/*
 * unigram - one piece of text to token ids: of all ways to cut it into tokens the one whose scores have the largest sum
 * (Kudo 2018, section 3.1).
 *
 * A character that no token of one character stands for may be the unknown token, with the lowest score of the vocabulary
 * less 10. Neighbouring unknown ones are one text: a token, if it is one; else the tokens of its bytes (byte_fallback), or one
 * unknown token.
 *
 *     ends    [piece bytes + 1]   16 bytes each: the best way that ends there
 *
 * Thread: one at a time each; what they point to is only read.
 */
#pragma once

#include "base/status.h"
#include "tokenizer/halt.h"
#include "tokenizer/tokens.h"
#include "tokenizer/vocab/token_trie.h"
#include "tokenizer/vocab/vocab.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct unigram_end;

/* What the scores are, and what becomes of the unknown. */
struct unigram_rules {
    double *scores; /* [n_ids] */
    double unknown_score;
    uint32_t unk_id; /* TOKEN_NONE: an unknown character is an error */
    bool byte_fallback;
    bool sums_in_float32; /* as SentencePiece; else in float64, as the tokenizers package */
};

struct unigram {
    const struct vocab *vocab;
    const struct token_trie *trie;
    const struct unigram_rules *rules;
    struct token_buffer *tokens;
    struct halt *halt; /* borrowed */
    /* Grown to the longest piece so far. */
    struct unigram_end *ends;
    size_t ends_max;
};

/* The caller sets the members up to halt. */
void unigram_finish(struct unigram *unigram);

/* Appends the ids of the piece, UTF-8, to tokens. INVALID_ARGUMENT: a character has no token, and there is no unknown one; error
 * names it. NO_MEMORY, CANCELLED. */
MUST_CHECK enum status unigram_encode(struct unigram *unigram, const uint8_t *piece, size_t n_bytes,
                                      struct error *error);
