/* gguf_tokenizer: a tokenizer from a GGUF file gives the ids of the folder that it comes from; what it cannot give is refused. */
#include "gguf/gguf_files.h"
#include "gguf/gguf_tokenizer.h"
#include "tokenizer/tokenizer.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define GOLDEN KVFERRY_SOURCE_DIR "/tests/golden/gguf/"

enum { IDS_MAX = 512 };

static void check_strings(const char *name, const json_t *strings, const json_t *expected)
{
    char path[512];
    struct error error = {""};
    struct tokenizer *tokenizer;
    snprintf(path, sizeof path, GOLDEN "%s.gguf", name);
    cr_assert_eq(tokenizer_load(path, &error, &tokenizer), STATUS_OK, "%s: %s", name, error.text);
    for (size_t i = 0; i < json_array_size(strings); i++) {
        const json_t *string = json_array_get(strings, i), *ids = json_array_get(expected, i);
        uint32_t got[IDS_MAX];
        struct token_buffer tokens = {got, IDS_MAX, 0};
        const struct encode_input input = {.text = json_string_value(string),
                                           .text_bytes = json_string_length(string),
                                           .add_special = true,
                                           .parse_special = true};
        cr_assert_eq(tokenizer_encode(tokenizer, &input, &tokens, &error), STATUS_OK, "%s: %s",
                     name, error.text);
        const size_t n = tokens.n_ids;
        cr_expect_eq(n, json_array_size(ids), "%s, string %zu: %zu ids, expected %zu", name, i, n,
                     json_array_size(ids));
        for (size_t j = 0; j < n && j < json_array_size(ids); j++)
            cr_expect_eq(got[j], json_integer_value(json_array_get(ids, j)),
                         "%s, string %zu, id %zu: %u, expected %lld", name, i, j, got[j],
                         (long long)json_integer_value(json_array_get(ids, j)));
    }
    tokenizer_destroy(tokenizer);
}

static void check_file(const char *file, size_t n_tokenizers)
{
    json_t *root = json_load_file(file, JSON_ALLOW_NUL, NULL), *ids;
    const char *name;
    cr_assert(root, "%s", file);
    gguf_files_init();
    cr_assert_eq(json_object_size(json_object_get(root, "ids")), n_tokenizers);
    json_object_foreach(json_object_get(root, "ids"), name, ids)
        check_strings(name, json_object_get(root, "strings"), ids);
    json_decref(root);
}

Test(gguf_tokens, ids_are_those_of_the_folder)
{
    check_file(GOLDEN "tokens.json", 8);
    check_file(GOLDEN "gemma4_tokens.json", 1);
}
