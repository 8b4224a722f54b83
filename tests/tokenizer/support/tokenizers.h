/*
 * tokenizers - what the tests of this folder share: tokenizers loaded from the tree or made from
 * text, and encoding into a buffer that is surely large enough.
 */
#pragma once

#include "tokenizer/tokenizer.h"

#include <jansson.h>

#define TEST_IDS_MAX 4096

struct test_ids {
    uint32_t ids[TEST_IDS_MAX];
    size_t n_ids;
};

/* Asserts that it loads. folder is relative to the root of the tree. */
struct tokenizer *tokenizer_of_tree(const char *folder);

/* A file below the root of the tree; asserts that it is JSON. */
json_t *json_of_tree(const char *path);

/* Asserts that it encodes. */
void encode(const struct tokenizer *tokenizer, const char *text, size_t n_bytes, bool add_special,
            bool parse_special, struct test_ids *ids_out);

/*
 * A small byte-level tokenizer as a document, to be changed by a test: the 256 bytes, "ab" (256)
 * and "abc" (257), the special token "<s>" (258).
 */
json_t *small_document(void);

/* Loads a document without a tokenizer_config.json. */
enum status load_document(const json_t *document, struct error *error,
                          struct tokenizer **tokenizer_out);

/* The same with one, given as text; NULL is none. */
enum status load_texts(const char *tokenizer_json, const char *config, struct error *error,
                       struct tokenizer **tokenizer_out);
