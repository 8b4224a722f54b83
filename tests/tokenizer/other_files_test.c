/* Tokenizers that are in other files than tokenizer.json: ids of SentencePiece and of tiktoken, and what is wrong with a file. */
#include "tests/tokenizer/support/tokenizers.h"
#include "tokenizer/files/wire_reader.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GOLDEN "tests/golden/tokenizer/"

static const char NAMES[][16] = {"spm_unigram", "spm_bpe", "spm_plain", "tekken_file"};

ParameterizedTestParameters(other_files, ids_are_those_of_the_package_that_the_file_is_for)
{
    return cr_make_param_array(char[16], (void *)NAMES, sizeof NAMES / sizeof *NAMES, NULL);
}

ParameterizedTest(char (*name)[16], other_files, ids_are_those_of_the_package_that_the_file_is_for)
{
    char path[128];
    snprintf(path, sizeof path, GOLDEN "%s", *name);
    struct tokenizer *tokenizer = tokenizer_of_tree(path);
    snprintf(path, sizeof path, GOLDEN "%s/expected.json", *name);
    json_t *expected = json_of_tree(path);
    json_t *text;
    size_t index;

    cr_assert_gt(json_array_size(json_object_get(expected, "strings")), 300);
    json_array_foreach(json_object_get(expected, "strings"), index, text)
    {
        const json_t *ids = json_array_get(json_object_get(expected, "ids"), index);
        struct test_ids made;
        encode(tokenizer, json_string_value(text), json_string_length(text), false, true, &made);
        cr_assert_eq(made.n_ids, json_array_size(ids), "%s, string %zu: %zu ids, not %zu", *name,
                     index, made.n_ids, json_array_size(ids));
        for (size_t i = 0; i < made.n_ids; i++)
            cr_assert_eq(made.ids[i], json_integer_value(json_array_get(ids, i)),
                         "%s, string %zu, id %zu is %u", *name, index, i, made.ids[i]);
    }
    json_decref(expected);
    tokenizer_destroy(tokenizer);
}

static void expect_ids(const struct tokenizer *tokenizer, const char *text, bool add_special,
                       const uint32_t *expected, size_t n)
{
    struct test_ids ids;
    encode(tokenizer, text, strlen(text), add_special, true, &ids);
    cr_assert_eq(ids.n_ids, n, "\"%s\": %zu ids", text, ids.n_ids);
    for (size_t i = 0; i < n; i++)
        cr_expect_eq(ids.ids[i], expected[i], "\"%s\", id %zu is %u", text, i, ids.ids[i]);
}

Test(other_files, control_and_user_symbols_are_added_tokens)
{
    struct tokenizer *tokenizer = tokenizer_of_tree(GOLDEN "spm_unigram");
    const struct special_ids ids = tokenizer_special_ids(tokenizer);
    cr_expect(ids.unk == 0 && ids.bos == 1 && ids.eos == 2 && ids.pad == TOKEN_NONE);
    cr_expect(tokenizer_is_special(tokenizer, 3)); /* <ctl> */
    cr_expect_not(tokenizer_is_special(tokenizer, 4));
    expect_ids(tokenizer, "<ctl><user></s>", false, (uint32_t[]){3, 4, 2}, 3);
    tokenizer_destroy(tokenizer);
}

Test(other_files, tekken_has_its_special_tokens_first_and_bos_before_a_text)
{
    struct tokenizer *tokenizer = tokenizer_of_tree(GOLDEN "tekken_file");
    expect_ids(tokenizer, "[INST]A", true, (uint32_t[]){1, 3, 30 + 'A'}, 3);
    expect_ids(tokenizer, "<SPECIAL_29>", false, (uint32_t[]){29}, 1);
    cr_expect_eq(tokenizer_special_ids(tokenizer).eos, 2);
    tokenizer_destroy(tokenizer);
}

/* A folder with one file, and perhaps a tokenizer_config.json. */

static void write_file(const char *folder, const char *name, const char *bytes, size_t n_bytes)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    cr_assert_not_null(file);
    cr_assert_eq(fwrite(bytes, 1, n_bytes, file), n_bytes);
    cr_assert_eq(fclose(file), 0);
}

static void remove_file(const char *folder, const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    cr_assert_eq(unlink(path), 0);
}

static char *bytes_of_tree(const char *name, size_t *n_bytes_out)
{
    char path[512];
    struct stat about;
    snprintf(path, sizeof path, "%s/%s", KVFERRY_SOURCE_DIR, name);
    FILE *file = fopen(path, "rb");
    cr_assert_not_null(file, "%s", path);
    cr_assert_eq(fstat(fileno(file), &about), 0);
    *n_bytes_out = (size_t)about.st_size;
    char *bytes = malloc(*n_bytes_out);
    cr_assert_eq(fread(bytes, 1, *n_bytes_out, file), *n_bytes_out);
    fclose(file);
    return bytes;
}

Test(other_files, what_a_config_says_goes_before_what_a_model_says)
{
    static const struct {
        const char *config;
        uint32_t ids[4];
        size_t n;
    } cases[] = {
        {"{}", {1, 0, 0}, 2},
        {"{\"add_bos_token\": false}", {0}, 1},
        {"{\"add_bos_token\": false, \"add_eos_token\": true}", {0, 2}, 2},
        {"{\"bos_token\": \"</s>\"}", {1, 0}, 2},
    };
    char folder[] = "/tmp/kvferry-tokenizer-XXXXXX";
    size_t n_bytes;
    char *bytes = bytes_of_tree(GOLDEN "spm_bpe/tokenizer.model", &n_bytes);

    cr_assert_not_null(mkdtemp(folder));
    write_file(folder, "tokenizer.model", bytes, n_bytes);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tokenizer *tokenizer = NULL;
        struct error error = {""};
        write_file(folder, "tokenizer_config.json", cases[i].config, strlen(cases[i].config));
        cr_assert_eq(tokenizer_load(folder, &error, &tokenizer), STATUS_OK, "%s: %s",
                     cases[i].config, error.text);
        expect_ids(tokenizer, "<unk>", true, cases[i].ids, cases[i].n);
        tokenizer_destroy(tokenizer);
    }
    remove_file(folder, "tokenizer_config.json");
    remove_file(folder, "tokenizer.model");
    cr_assert_eq(rmdir(folder), 0);
    free(bytes);
}

/* As T5's published folders have them: </s> behind a text, and tokens for gaps behind the pieces, the first one last. */
Test(other_files, t5_has_its_gaps_behind_the_pieces_and_eos_behind_a_text)
{
    static const struct {
        const char *config;
        uint32_t first_gap; /* TOKEN_NONE: the folder has none */
    } cases[] = {
        {"{\"tokenizer_class\": \"T5Tokenizer\", \"eos_token\": \"</s>\", "
         "\"additional_special_tokens\": [\"<extra_id_0>\", \"<extra_id_99>\"]}",
         99},
        {"{\"tokenizer_class\": \"T5TokenizerFast\", \"extra_ids\": 2}", 1},
        {"{\"tokenizer_class\": \"MT5Tokenizer\", \"extra_ids\": 0}", TOKEN_NONE},
    };
    char folder[] = "/tmp/kvferry-tokenizer-XXXXXX";
    size_t n_bytes;
    char *bytes = bytes_of_tree(GOLDEN "spm_unigram/tokenizer.model", &n_bytes);

    cr_assert_not_null(mkdtemp(folder));
    write_file(folder, "spiece.model", bytes, n_bytes);
    struct tokenizer *plain = tokenizer_of_tree(GOLDEN "spm_unigram");
    const uint32_t n_pieces = tokenizer_n_ids(plain);
    tokenizer_destroy(plain);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tokenizer *tokenizer = NULL;
        struct error error = {""};
        const uint32_t gap = n_pieces + cases[i].first_gap;
        write_file(folder, "tokenizer_config.json", cases[i].config, strlen(cases[i].config));
        cr_assert_eq(tokenizer_load(folder, &error, &tokenizer), STATUS_OK, "%s: %s",
                     cases[i].config, error.text);
        if (cases[i].first_gap != TOKEN_NONE)
            expect_ids(tokenizer, "<extra_id_0><extra_id_1>", true, (uint32_t[]){gap, gap - 1, 2},
                       3);
        else
            cr_expect_eq(tokenizer_n_ids(tokenizer), n_pieces);
        tokenizer_destroy(tokenizer);
    }
    remove_file(folder, "tokenizer_config.json");
    remove_file(folder, "spiece.model");
    cr_assert_eq(rmdir(folder), 0);
    free(bytes);
}

Test(other_files, t5_published_as_json_has_eos_behind_a_text)
{
    static const uint32_t IDS[] = {3, 2, 12, 23, 23, 6, 288, 65, 6, 20, 23, 28, 1};
    struct tokenizer *tokenizer = tokenizer_of_tree(GOLDEN "t5_published");
    expect_ids(tokenizer, "Hello <extra_id_0> world", true, IDS, sizeof IDS / sizeof *IDS);
    expect_ids(tokenizer, "Hello <extra_id_0> world", false, IDS, sizeof IDS / sizeof *IDS - 1);
    tokenizer_destroy(tokenizer);
}

Test(other_files, files_of_a_folder_have_an_order)
{
    char folder[] = "/tmp/kvferry-tokenizer-XXXXXX";
    struct tokenizer *tokenizer = NULL;
    struct error error = {""};
    uint8_t digest[TOKENIZER_DIGEST_BYTES], again[TOKENIZER_DIGEST_BYTES];

    cr_assert_not_null(mkdtemp(folder));
    cr_expect_eq(tokenizer_load(folder, &error, &tokenizer), STATUS_NOT_FOUND);
    cr_expect_not_null(strstr(error.text, "tokenizer.json"), "%s", error.text);
    write_file(folder, "spiece.model", "x", 1);
    cr_expect_eq(tokenizer_load(folder, &error, &tokenizer), STATUS_CORRUPT);
    cr_expect_str_eq(
        error.text,
        "spiece.model is no model of SentencePiece: a field is cut, or of no known type");
    write_file(folder, "tokenizer.model", "IQ== 0\nIg== 1\n", 14);
    cr_expect_eq(tokenizer_load(folder, &error, &tokenizer), STATUS_UNSUPPORTED);
    cr_expect_not_null(
        strstr(error.text,
               "tokenizer.model is a table of tiktoken, which does not say how text is split"));
    write_file(folder, "tekken.json", "{}", 2);
    cr_expect_eq(tokenizer_load(folder, &error, &tokenizer), STATUS_CORRUPT);
    cr_expect_str_eq(error.text, "tekken.json: config is missing, it must be an object");
    json_t *document = small_document();
    char *text = json_dumps(document, 0);
    write_file(folder, "tokenizer.json", text, strlen(text));
    cr_assert_eq(tokenizer_load(folder, &error, &tokenizer), STATUS_OK, "%s", error.text);
    cr_assert_eq(tokenizer_digest_read(folder, &error, digest), STATUS_OK);
    tokenizer_digest(tokenizer, again);
    cr_expect_eq(memcmp(digest, again, sizeof digest), 0);
    tokenizer_destroy(tokenizer);
    static const char *const names[] = {"spiece.model", "tokenizer.model", "tekken.json",
                                        "tokenizer.json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        remove_file(folder, names[i]);
    cr_assert_eq(rmdir(folder), 0);
    free(text);
    json_decref(document);
}

/* What is wrong with a file */

static void expect_refused(enum tokenizer_source source, const char *bytes, size_t n_bytes,
                           enum status status, const char *sentence)
{
    const struct text_buffer file = {(char *)(uintptr_t)bytes, n_bytes, n_bytes};
    struct tokenizer *tokenizer = NULL;
    struct error error = {""};
    cr_expect_eq(tokenizer_load_bytes(source, &file, NULL, &error, &tokenizer), status, "%s: %s",
                 sentence, error.text);
    cr_expect_not_null(strstr(error.text, sentence), "\"%s\" is not in \"%s\"", sentence,
                       error.text);
    cr_expect_null(tokenizer);
}

#define EXPECT_MODEL_REFUSED(bytes, status, sentence)                                              \
    expect_refused(TOKENIZER_SENTENCEPIECE, bytes, sizeof(bytes) - 1, status, sentence)

/* A piece "a" of score 0: field 1, five bytes and up. */
#define A                                                                                          \
    "\x0a\x03\x0a\x01"                                                                             \
    "a"

Test(other_files, bad_models_are_refused)
{
    EXPECT_MODEL_REFUSED("", STATUS_CORRUPT, "it has no tokens");
    EXPECT_MODEL_REFUSED("\x0a\x05\x0a\x01", STATUS_CORRUPT, "a field is cut");
    EXPECT_MODEL_REFUSED("\x0b", STATUS_CORRUPT, "of no known type"); /* a group */
    EXPECT_MODEL_REFUSED("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", STATUS_CORRUPT,
                         "a field is cut");
    EXPECT_MODEL_REFUSED("\x0a\x03\x0a\x01\xff", STATUS_CORRUPT, "token 0 has no text of UTF-8");
    EXPECT_MODEL_REFUSED("\x0a\x02\x0a\x00", STATUS_CORRUPT, "token 0 has no text of UTF-8");
    EXPECT_MODEL_REFUSED(A "\x0a\x08\x0a\x01"
                           "b\x15\x00\x00\xc0\x7f",
                         STATUS_CORRUPT, "token 1 has no text of UTF-8, or no finite");
    EXPECT_MODEL_REFUSED(A "\x0a\x04\x0a\x02"
                           "b",
                         STATUS_CORRUPT, "a field is cut");
    EXPECT_MODEL_REFUSED(A "\x12\x02\x18\x03", STATUS_UNSUPPORTED,
                         "model_type is WORD, supported are UNIGRAM and BPE");
    EXPECT_MODEL_REFUSED(A "\x12\x02\x18\x04", STATUS_UNSUPPORTED, "model_type is CHAR");
    EXPECT_MODEL_REFUSED(A "\x12\x02\x18\x09", STATUS_CORRUPT, "model_type is 9, there are 1 to 4");
    EXPECT_MODEL_REFUSED(A "\x12\x01\x18", STATUS_CORRUPT, "its trainer_spec is cut");
    EXPECT_MODEL_REFUSED(A "\x12\x03\xc0\x01\x01", STATUS_UNSUPPORTED,
                         "treat_whitespace_as_suffix is true");
    EXPECT_MODEL_REFUSED(A "\x1a\x02\x28\x00", STATUS_UNSUPPORTED, "escape_whitespaces is false");
    EXPECT_MODEL_REFUSED(A "\x1a\x03\x12\x05"
                           "a",
                         STATUS_CORRUPT, "its normalizer_spec is cut");
    EXPECT_MODEL_REFUSED(A "\x1a\x03\x12\x01"
                           "a",
                         STATUS_CORRUPT, "precompiled_charsmap is no base64 of a table");
    EXPECT_MODEL_REFUSED(A A "\x12\x02\x18\x02", STATUS_CORRUPT,
                         "has the token \"a\" twice, 1 is the second");
    EXPECT_MODEL_REFUSED(A A, STATUS_UNSUPPORTED,
                         "model.vocab[1] is \"a\", which an id before it has");
}

#define CONFIG(more)                                                                               \
    "{\"config\": {\"pattern\": \"a\", \"default_num_special_tokens\": 22, "                       \
    "\"default_vocab_size\": 24}, "                                                                \
    "\"vocab\": [{\"rank\": 0, \"token_bytes\": \"YQ==\"}, " more "]}"
#define EXPECT_TEKKEN_REFUSED(text, status, sentence)                                              \
    expect_refused(TOKENIZER_TEKKEN, text, strlen(text), status, sentence)

Test(other_files, bad_tekkens_are_refused)
{
    EXPECT_TEKKEN_REFUSED("[]", STATUS_CORRUPT, "tekken.json: config is missing");
    EXPECT_TEKKEN_REFUSED("{\"config\": {}}", STATUS_CORRUPT, "config.pattern is missing");
    EXPECT_TEKKEN_REFUSED("{\"config\": {\"pattern\": \"a\"}}", STATUS_CORRUPT,
                          "config.default_vocab_size is missing");
    EXPECT_TEKKEN_REFUSED("{\"config\": {\"pattern\": \"a\", \"default_num_special_tokens\": 22, "
                          "\"default_vocab_size\": 24}}",
                          STATUS_CORRUPT, "vocab is missing, it must be an array");
    EXPECT_TEKKEN_REFUSED("{\"config\": {\"pattern\": \"a\", \"default_num_special_tokens\": 22, "
                          "\"default_vocab_size\": 24}, \"vocab\": []}",
                          STATUS_CORRUPT,
                          "config.default_vocab_size is 24, with 22 special tokens and 0 others");
    EXPECT_TEKKEN_REFUSED("{\"config\": {\"pattern\": \"a\", \"default_num_special_tokens\": 3, "
                          "\"default_vocab_size\": 3}, \"vocab\": []}",
                          STATUS_CORRUPT,
                          "config.default_vocab_size is 3, with 3 special tokens and 0 others");
    EXPECT_TEKKEN_REFUSED(CONFIG("{\"rank\": 7, \"token_bytes\": \"YQ==\"}"), STATUS_UNSUPPORTED,
                          "vocab[1].rank is 7, it must be 1");
    EXPECT_TEKKEN_REFUSED(CONFIG("{\"rank\": 1, \"token_bytes\": \"YQ=\"}"), STATUS_CORRUPT,
                          "vocab[1].token_bytes is no base64 of 1 to 1024 bytes");
    EXPECT_TEKKEN_REFUSED(CONFIG("{\"rank\": 1, \"token_bytes\": \"\"}"), STATUS_CORRUPT,
                          "vocab[1].token_bytes is no base64");
    EXPECT_TEKKEN_REFUSED(CONFIG("{\"rank\": 1, \"token_bytes\": 7}"), STATUS_CORRUPT,
                          "vocab[1].token_bytes is not a string");
    EXPECT_TEKKEN_REFUSED(CONFIG("{\"rank\": 1, \"token_bytes\": \"YQ==\"}"), STATUS_CORRUPT,
                          "vocab[1] has the bytes of one before it");
    EXPECT_TEKKEN_REFUSED(
        "{\"config\": {\"pattern\": \"a\", \"default_num_special_tokens\": 2, "
        "\"default_vocab_size\": 3}, "
        "\"vocab\": [{\"rank\": 0, \"token_bytes\": \"YQ==\"}]}",
        STATUS_CORRUPT, "special_tokens has 20 tokens, but config.default_num_special_tokens is 2");
    EXPECT_TEKKEN_REFUSED("{\"config\": {\"pattern\": \"a\", \"default_num_special_tokens\": 2, "
                          "\"default_vocab_size\": 3}, "
                          "\"vocab\": [{\"rank\": 0, \"token_bytes\": \"YQ==\"}], "
                          "\"special_tokens\": [{\"rank\": 1, \"token_str\": \"<s>\"}]}",
                          STATUS_UNSUPPORTED, "special_tokens[0].rank is 1, it must be 0");
}

Test(other_files, a_model_cut_anywhere_is_refused_or_read)
{
    size_t n_bytes;
    char *bytes = bytes_of_tree(GOLDEN "spm_plain/tokenizer.model", &n_bytes);

    for (size_t n = 0; n < n_bytes; n += 1 + n / 9) {
        struct tokenizer *tokenizer = NULL;
        struct error error = {""};
        struct text_buffer file = {bytes, n, n};
        enum status status = tokenizer_load_bytes(TOKENIZER_SENTENCEPIECE, &file, NULL, &error,
                                                  &tokenizer);
        cr_expect(status == STATUS_OK || status == STATUS_CORRUPT, "%zu bytes: %s: %s", n,
                  status_name(status), error.text);
        tokenizer_destroy(tokenizer);
    }
    free(bytes);
}

Test(other_files, fields_of_the_wire_are_read_to_their_end)
{
    static const uint8_t bytes[] = {0x08, 0x96, 0x01, 0x12, 0x02, 'h', 'i', 0x1d, 1, 2,   3,
                                    4,    0x21, 1,    0,    0,    0,   0,   0,    0, 0x80};
    struct wire_reader reader = {bytes, bytes + sizeof bytes};
    struct wire_field field;
    bool is_bad;

    cr_assert(wire_next(&reader, &field, &is_bad));
    cr_expect(field.number == 1 && field.type == WIRE_VARINT && field.value == 150);
    cr_assert(wire_next(&reader, &field, &is_bad));
    cr_expect(field.number == 2 && field.n_bytes == 2 && memcmp(field.bytes, "hi", 2) == 0);
    cr_assert(wire_next(&reader, &field, &is_bad));
    cr_expect(field.number == 3 && field.value == 0x04030201);
    cr_assert(wire_next(&reader, &field, &is_bad));
    cr_expect(field.number == 4 && field.value == 0x8000000000000001);
    cr_assert_not(wire_next(&reader, &field, &is_bad));
    cr_expect_not(is_bad);
    reader = (struct wire_reader){bytes, bytes + 2}; /* a number that does not end */
    cr_assert_not(wire_next(&reader, &field, &is_bad));
    cr_expect(is_bad);
}
