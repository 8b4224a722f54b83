/* gguf_tokenizer: a tokenizer from a GGUF file gives the ids of the folder that it comes from; what it cannot give is refused. */
#include "base/random.h"
#include "gguf/gguf_files.h"
#include "gguf/gguf_tokenizer.h"
#include "tests/base/support/folder.h"
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
    check_file(GOLDEN "qwen35_tokens.json", 1);
}

/* Unigram with a charsmap, and with bytes; tokens that fill the vocabulary up are in no text, but T5's for gaps are. */
Test(gguf_tokens, ids_of_t5_are_those_of_sentencepiece)
{
    check_file(GOLDEN "t5_tokens.json", 3);
}

/* n_out: its bytes. */
static uint8_t *read_golden(const char *name, size_t *n_out)
{
    static uint8_t bytes[1 << 18];
    char from[512];
    snprintf(from, sizeof from, GOLDEN "%s.gguf", name);
    FILE *file = fopen(from, "rb");
    cr_assert_not_null(file, "%s", from);
    *n_out = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    return bytes;
}

static void write_bytes(const uint8_t *bytes, size_t n, const char *path)
{
    FILE *file = fopen(path, "wb");
    cr_assert(file && fwrite(bytes, 1, n, file) == n && fclose(file) == 0, "%s", path);
}

/* A copy of a golden with another text in the place of the first one that is as long. */
static void write_changed(const char *name, const char *was, const char *is, size_t n_bytes,
                          const char *path)
{
    size_t n;
    uint8_t *bytes = read_golden(name, &n);
    uint8_t *at = memmem(bytes, n, was, strlen(was));
    cr_assert(at, "%s has no %s", name, was);
    memcpy(at, is, n_bytes);
    write_bytes(bytes, n, path);
}

/* A number of 32 bits behind its key and kind. */
#define NUMBER(key, value) key, key "\4\0\0\0" value, sizeof(key) - 1 + 8
#define RENAMED(key, name) key, name, sizeof(key) - 1
/* The kind of the elements of an array, behind its own. */
#define KIND(key, kind) key, key "\11\0\0\0" kind "\0\0\0", sizeof(key) - 1 + 8

#define SCORES "tokenizer.ggml.scores"

/* A token that was added to a model later, behind those that fill the vocabulary up: these are tokens for gaps all the same. */
Test(gguf_tokens, a_later_token_of_t5_stands_behind_the_gaps)
{
    static const char TYPES[] = "tokenizer.ggml.token_type", TEXT[] = "<extra_id_0><later0>";
    enum { LATER = 200, PIECES = 94, TYPE_OF_USER = 4 };
    char folder[256], path[300];
    size_t n;
    struct error error = {""};
    struct tokenizer *tokenizer = NULL;
    uint8_t *bytes = read_golden("t5_tokens", &n);
    memcpy(memmem(bytes, n, "[PAD200]", 8), "<later0>", 8);
    uint8_t *type = (uint8_t *)memmem(bytes, n, TYPES, sizeof TYPES - 1) + sizeof TYPES - 1 + 16;
    type[LATER * sizeof(uint32_t)] = TYPE_OF_USER;
    folder_make(folder, sizeof folder, "gguf_tokens");
    snprintf(path, sizeof path, "%s/t5.gguf", folder);
    write_bytes(bytes, n, path);
    gguf_files_init();
    cr_assert_eq(tokenizer_load(path, &error, &tokenizer), STATUS_OK, "%s", error.text);
    uint32_t ids[IDS_MAX];
    struct token_buffer tokens = {ids, IDS_MAX, 0};
    const struct encode_input input = {
        .text = TEXT, .text_bytes = sizeof TEXT - 1, .add_special = true, .parse_special = true};
    cr_assert_eq(tokenizer_encode(tokenizer, &input, &tokens, &error), STATUS_OK, "%s", error.text);
    cr_assert_eq(tokens.n_ids, 3);
    cr_expect(ids[0] == PIECES + 99 && ids[1] == LATER && ids[2] == 1, "%u, %u", ids[0], ids[1]);
    tokenizer_destroy(tokenizer);
    folder_remove(folder);
}

Test(gguf_tokens, what_a_tokenizer_of_t5_lacks_is_named)
{
    static const struct {
        const char *was, *is;
        size_t n_bytes;
        const char *sentence;
    } CASES[] = {
        {RENAMED("tokenizer.ggml.tokens", "tokenizer.ggml.tokenz"),
         "key tokenizer.ggml.tokens is missing"},
        {RENAMED("tokenizer.ggml.scores", "tokenizer.ggml.scorez"),
         "key tokenizer.ggml.scores is missing, or has not a number for each of"},
        {RENAMED("tokenizer.ggml.token_type", "tokenizer.ggml.token_typo"),
         "key tokenizer.ggml.token_type is missing"},
        {RENAMED("tokenizer.ggml.add_space_prefix", "tokenizer.ggml.add_space_profix"),
         "key tokenizer.ggml.add_space_prefix is missing: how texts are normalized is not known"},
        {RENAMED("tokenizer.ggml.remove_extra_whitespaces",
                 "tokenizer.ggml.remove_extra_whitespacez"),
         "key tokenizer.ggml.remove_extra_whitespaces is missing"},
        {NUMBER("tokenizer.ggml.eos_token_id", "\371\0\0\0"),
         "key tokenizer.ggml.eos_token_id is 249, there are 94 tokens that are used"},
        {NUMBER("tokenizer.ggml.unknown_token_id", "\377\377\0\0"),
         "key tokenizer.ggml.unknown_token_id is 65535"},
        {KIND("tokenizer.ggml.precompiled_charsmap", "\7"),
         "key tokenizer.ggml.precompiled_charsmap is no array of bytes"},
        {"\xc3\xa9", "\xff\xa9", 2, "tokenizer.ggml.tokens: token"},
        {SCORES, SCORES "\11\0\0\0\6\0\0\0\314\0\0\0\0\0\0\0\0\0\200\177", sizeof(SCORES) - 1 + 20,
         "tokenizer.ggml.scores is inf for token 0"},
    };
    char folder[256], path[300];
    folder_make(folder, sizeof folder, "gguf_tokens");
    snprintf(path, sizeof path, "%s/t5.gguf", folder);
    gguf_files_init();
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct error error = {""};
        struct tokenizer *tokenizer = NULL;
        write_changed("t5_tokens", CASES[i].was, CASES[i].is, CASES[i].n_bytes, path);
        cr_expect_neq(tokenizer_load(path, &error, &tokenizer), STATUS_OK, "%zu", i);
        cr_expect(strstr(error.text, CASES[i].sentence), "%zu: no \"%s\" in \"%s\"", i,
                  CASES[i].sentence, error.text);
    }
    folder_remove(folder);
}

enum { N_CHANGES = 1000 };

/* Whatever else a file says, it is read or refused with a sentence. */
Test(gguf_tokens, changed_bytes_of_a_tokenizer_of_t5_end_in_a_sentence, .timeout = 120)
{
    struct random random;
    char folder[256], path[300];
    size_t n, n_refused = 0;
    uint8_t *bytes = read_golden("t5_tokens", &n);
    folder_make(folder, sizeof folder, "gguf_tokens");
    snprintf(path, sizeof path, "%s/t5.gguf", folder);
    gguf_files_init();
    random_init(&random, 5);
    for (int i = 0; i < N_CHANGES; i++) {
        struct error error = {""};
        struct tokenizer *tokenizer = NULL;
        const size_t at = (size_t)random_below(&random, n);
        const uint8_t was = bytes[at];
        bytes[at] ^= (uint8_t)(1u << random_below(&random, 8));
        write_bytes(bytes, n, path);
        bytes[at] = was;
        if (tokenizer_load(path, &error, &tokenizer) == STATUS_OK) {
            tokenizer_destroy(tokenizer);
            continue;
        }
        n_refused++;
        cr_assert(error.text[0], "byte %zu", at);
    }
    cr_expect(n_refused > N_CHANGES / 10 && n_refused < N_CHANGES, "%zu", n_refused);
    folder_remove(folder);
}
