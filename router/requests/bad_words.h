/*
 * bad_words - the texts of a request's bad_words, until they are token sequences (token_rules.h).
 *
 * A text makes two sequences: without spaces before it, and behind one space; one, where these are equal, or where the text is
 * only spaces. A sequence with a token that the model does not have makes none.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "rpc/rpc_error.h"
#include "sampling_params/token_rules.h"
#include "tokenizer/tokenizer.h"

struct bad_words {
    uint32_t vocabulary; /* the model's */
    uint32_t n;
    uint16_t bytes[BAD_WORDS_MAX]; /* 1 .. BAD_WORD_BYTES_MAX */
    char text[BAD_WORDS_MAX][BAD_WORD_BYTES_MAX];
};

/* Asserts on the bounds: the caller has checked them. */
void bad_words_add(struct bad_words *words, const char *text, size_t bytes);

/* A copy of others (NULL: none) with the sequences of words, which the caller frees. INVALID_ARGUMENT: one has more than
 * BAD_SEQUENCE_IDS_MAX tokens, or is no text for the tokenizer. NO_MEMORY. */
MUST_CHECK enum status bad_words_tokenize(const struct bad_words *words,
                                          const struct tokenizer *tokenizer,
                                          const struct token_rules *others,
                                          struct token_rules **rules_out, struct rpc_error *error);
