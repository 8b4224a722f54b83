/*
 * tokenizer_parts - the parts of a tokenizer, and the reading of its files.
 *
 * For the files of this folder only. Thread: immutable once read.
 */
#pragma once

#include "tokenizer/added_tokens.h"
#include "tokenizer/merges.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/splitter.h"
#include "tokenizer/template.h"
#include "tokenizer/token_texts.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocab.h"

struct field;

struct tokenizer {
    struct vocab *vocab; /* behind a pointer: NULL until it is read */
    struct merges merges;
    struct added_tokens added;
    struct normalizer normalizer;
    struct splitter splitter;
    struct token_texts texts;
    struct template template;
    struct special_ids special_ids;
    bool byte_fallback; /* of the model, as what follows; see bpe.h */
    uint32_t unk_id;
    bool fuse_unk;
    bool ignore_merges; /* Llama 3: a whole piece that is a token stays whole */
    uint8_t digest[TOKENIZER_DIGEST_BYTES];
};

/* Reads the root of tokenizer.json. What was read stays in tokenizer, also on failure: CORRUPT,
 * UNSUPPORTED (error names the field), NO_MEMORY. */
MUST_CHECK enum status tokenizer_parts_read(struct tokenizer *tokenizer, const struct field *root,
                                            struct error *error);

/* Reads the root of tokenizer_config.json after that: names of special tokens, and whether the two
 * files agree. Fails the same way. */
MUST_CHECK enum status tokenizer_config_read(struct tokenizer *tokenizer, const struct field *root,
                                             struct error *error);
