#include "tests/tokenizer/support/tokenizers.h"

#include "base/utf8.h"
#include "tokenizer/files/byte_alphabet.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tokenizer *tokenizer_of_tree(const char *folder)
{
    char path[512];
    struct error error = {""};
    struct tokenizer *tokenizer = NULL;

    snprintf(path, sizeof path, "%s/%s", KVFERRY_SOURCE_DIR, folder);
    enum status status = tokenizer_load(path, &error, &tokenizer);
    cr_assert_eq(status, STATUS_OK, "%s: %s: %s", folder, status_name(status), error.text);
    return tokenizer;
}

json_t *json_of_tree(const char *path)
{
    char full[512];
    json_error_t reason;

    snprintf(full, sizeof full, "%s/%s", KVFERRY_SOURCE_DIR, path);
    json_t *root = json_load_file(full, JSON_ALLOW_NUL, &reason);
    cr_assert_not_null(root, "%s:%d: %s", path, reason.line, reason.text);
    return root;
}

void encode(const struct tokenizer *tokenizer, const char *text, size_t n_bytes, bool add_special,
            bool parse_special, struct test_ids *ids_out)
{
    struct encode_input input = {.text = text,
                                 .text_bytes = n_bytes,
                                 .add_special = add_special,
                                 .parse_special = parse_special};
    struct token_buffer tokens = {.ids = ids_out->ids, .ids_max = TEST_IDS_MAX};
    struct error error = {""};

    cr_assert_eq(tokenizer_encode(tokenizer, &input, &tokens, &error), STATUS_OK, "%s", error.text);
    ids_out->n_ids = tokens.n_ids;
}

static json_t *byte_vocabulary(void)
{
    json_t *vocab = json_object();
    int n = 0;

    for (uint32_t codepoint = 0x21; codepoint <= 0x143; codepoint++) {
        char text[5] = {0};
        if (byte_alphabet_byte(codepoint) < 0)
            continue;
        utf8_write(codepoint, text);
        json_object_set_new(vocab, text, json_integer(n++));
    }
    cr_assert_eq(n, 256);
    return vocab;
}

json_t *small_document(void)
{
    json_t *vocab = byte_vocabulary();
    json_object_set_new(vocab, "ab", json_integer(256));
    json_object_set_new(vocab, "abc", json_integer(257));
    json_t *document = json_pack(
        "{s:[{s:i, s:s, s:b, s:b}], s:n, s:{s:s, s:b, s:b}, s:n, s:{s:s}, s:{s:s, s:o, s:[s, s]}}",
        "added_tokens", "id", 258, "content", "<s>", "special", 1, "normalized", 0, "normalizer",
        "pre_tokenizer", "type", "ByteLevel", "add_prefix_space", 0, "use_regex", 1,
        "post_processor", "decoder", "type", "ByteLevel", "model", "type", "BPE", "vocab", vocab,
        "merges", "a b", "ab c");
    cr_assert_not_null(document);
    return document;
}

enum status load_texts(const char *tokenizer_json, const char *config, struct error *error,
                       struct tokenizer **tokenizer_out)
{
    struct text_buffer file = {.bytes = (char *)tokenizer_json, .n_bytes = strlen(tokenizer_json)};
    struct text_buffer second = {.bytes = (char *)config, .n_bytes = config ? strlen(config) : 0};
    return tokenizer_load_bytes(TOKENIZER_JSON, &file, config ? &second : NULL, error,
                                tokenizer_out);
}

enum status load_document(const json_t *document, struct error *error,
                          struct tokenizer **tokenizer_out)
{
    char *text = json_dumps(document, 0);
    cr_assert_not_null(text);
    enum status status = load_texts(text, NULL, error, tokenizer_out);
    free(text);
    return status;
}
