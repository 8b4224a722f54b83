/*
 * tokenizer_parts - the parts of a tokenizer, and the reading of its files.
 *
 * For the files of this folder only. Thread: immutable once read.
 */
#pragma once

#include "tokenizer/added/added_tokens.h"
#include "tokenizer/decoder/token_texts.h"
#include "tokenizer/normalizer/normalizer.h"
#include "tokenizer/pieces/piece_model.h"
#include "tokenizer/pre_tokenizer/splitter.h"
#include "tokenizer/template.h"
#include "tokenizer/tokenizer.h"

struct field;

struct tokenizer {
    struct piece_model model;
    struct added_tokens added;
    struct normalizer normalizer;
    struct splitter splitter;
    struct token_texts texts;
    struct template template;
    struct special_ids special_ids;
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

/* UNSUPPORTED: the member of object has a value that is neither false, nor zero, nor empty. */
MUST_CHECK enum status field_refuse_set(const struct field *object, const char *name,
                                        struct error *error);
