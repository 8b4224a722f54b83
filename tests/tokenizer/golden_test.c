/* tokenizer: gives the ids and the texts that the tokenizers package gives, for the demo model and
 * for small tokenizers in the manner of well-known ones (tests/golden/tokenizer/make.py). */
#include "base/utf8.h"
#include "tests/tokenizer/support/tokenizers.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GOLDEN       "tests/golden/tokenizer/"
#define PER_BATCH    30
#define TEXT_MAX     16384
#define FNV_START    0xcbf29ce484222325ull
#define N_TOKENIZERS 31

static const char NAMES[N_TOKENIZERS][16] = {"gpt2",
                                             "gpt2_prefix",
                                             "llama3",
                                             "qwen2",
                                             "tekken",
                                             "stages",
                                             "digits",
                                             "holes",
                                             "holes_unk",
                                             "holes_fused",
                                             "llama2",
                                             "llama2_normed",
                                             "mistral",
                                             "gemma",
                                             "metaspace",
                                             "metaspace_never",
                                             "metaspace_first",
                                             "t5",
                                             "xlnet",
                                             "unigram_bytes",
                                             "bert",
                                             "bert_cased",
                                             "words",
                                             "openai_gpt",
                                             "clip",
                                             "prefixed",
                                             "falcon",
                                             "byte_normalizer",
                                             "scripts",
                                             "letters",
                                             "t5_published"};

static json_t *expected_of(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, GOLDEN "%s/expected.json", name);
    return json_of_tree(path);
}

static struct tokenizer *tokenizer_of(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, GOLDEN "%s", name);
    return tokenizer_of_tree(path);
}

static void expect_ids(const json_t *expected, const struct test_ids *ids, const char *where,
                       size_t index)
{
    cr_assert_eq(json_array_size(expected), ids->n_ids, "%s, string %zu: %zu ids, not %zu", where,
                 index, ids->n_ids, json_array_size(expected));
    for (size_t i = 0; i < ids->n_ids; i++)
        cr_assert_eq(json_integer_value(json_array_get(expected, i)), ids->ids[i],
                     "%s, string %zu, id %zu is %u", where, index, i, ids->ids[i]);
}

Test(golden, demo_model_reads_and_writes_200_strings)
{
    struct tokenizer *tokenizer = tokenizer_of_tree("model/demo");
    json_t *root = json_of_tree("model/demo/golden/tokenizer.json");
    json_t *row;
    size_t index;

    cr_assert_eq(json_array_size(json_object_get(root, "cases")), 200);
    json_array_foreach(json_object_get(root, "cases"), index, row)
    {
        const json_t *text = json_object_get(row, "text");
        struct test_ids ids;
        encode(tokenizer, json_string_value(text), json_string_length(text), false, true, &ids);
        expect_ids(json_object_get(row, "ids"), &ids, "demo", index);

        char back[TEXT_MAX];
        struct decode_input input = {ids.ids, ids.n_ids, false};
        struct text_buffer decoded = {.bytes = back, .bytes_max = sizeof back};
        cr_assert_eq(tokenizer_decode(tokenizer, &input, &decoded, NULL), STATUS_OK);
        cr_assert_eq(decoded.n_bytes, json_string_length(text));
        cr_assert_eq(memcmp(back, json_string_value(text), decoded.n_bytes), 0);

        encode(tokenizer, json_string_value(text), json_string_length(text), true, true, &ids);
        cr_assert_eq(ids.ids[0], 2046);
    }
    json_decref(root);
    tokenizer_destroy(tokenizer);
}

ParameterizedTestParameters(golden, strings_have_the_ids_of_the_reference)
{
    return cr_make_param_array(char[16], (void *)NAMES, N_TOKENIZERS, NULL);
}

ParameterizedTest(char (*name)[16], golden, strings_have_the_ids_of_the_reference)
{
    struct tokenizer *tokenizer = tokenizer_of(*name);
    json_t *strings = json_of_tree(GOLDEN "strings.json");
    json_t *expected = expected_of(*name);
    json_t *text;
    size_t index;

    cr_assert_gt(json_array_size(json_object_get(strings, "strings")), 100);
    json_array_foreach(json_object_get(strings, "strings"), index, text)
    {
        struct test_ids ids;
        encode(tokenizer, json_string_value(text), json_string_length(text), false, true, &ids);
        expect_ids(json_array_get(json_object_get(expected, "ids"), index), &ids, *name, index);
    }
    json_decref(strings);
    json_decref(expected);
    tokenizer_destroy(tokenizer);
}

/* The generator of make.py: splitmix64 and what it draws. */

static uint64_t below(uint64_t *state, uint64_t n)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return (z ^ (z >> 31)) % n;
}

static size_t random_string(uint64_t *state, const json_t *fragments, char *text)
{
    static const struct {
        uint32_t first, n;
    } ranges[] = {{0x61, 26},   {0x30, 10},     {0x21, 94},      {0xc0, 320},   {0x300, 112},
                  {0x370, 256}, {0x5d0, 80},    {0x900, 128},    {0x1e00, 512}, {0x2000, 112},
                  {0x3041, 86}, {0x4e00, 2000}, {0xac00, 11172}, {0x1f600, 80}};
    uint64_t n_parts = 1 + below(state, 14);
    size_t n_bytes = 0;

    for (uint64_t part = 0; part < n_parts; part++) {
        uint64_t which = below(state, 3 + sizeof ranges / sizeof *ranges);
        if (which < 3) {
            const json_t *fragment = json_array_get(fragments,
                                                    below(state, json_array_size(fragments)));
            memcpy(text + n_bytes, json_string_value(fragment), json_string_length(fragment));
            n_bytes += json_string_length(fragment);
            continue;
        }
        for (uint64_t n = 1 + below(state, 4); n > 0; n--) {
            uint64_t codepoint = ranges[which - 3].first + below(state, ranges[which - 3].n);
            n_bytes += utf8_write((uint32_t)codepoint, text + n_bytes);
        }
    }
    return n_bytes;
}

static uint64_t fnv(uint64_t state, const void *data, size_t n_bytes)
{
    const uint8_t *bytes = data;
    for (size_t i = 0; i < n_bytes; i++)
        state = (state ^ bytes[i]) * 0x100000001b3ull;
    return state;
}

static uint64_t hash_of(const json_t *hashes, size_t index)
{
    return strtoull(json_string_value(json_array_get(hashes, index)), NULL, 16);
}

ParameterizedTestParameters(golden, random_strings_have_the_ids_of_the_reference)
{
    return cr_make_param_array(char[16], (void *)NAMES, N_TOKENIZERS, NULL);
}

ParameterizedTest(char (*name)[16], golden, random_strings_have_the_ids_of_the_reference)
{
    struct tokenizer *tokenizer = tokenizer_of(*name);
    json_t *strings = json_of_tree(GOLDEN "strings.json");
    json_t *expected = expected_of(*name);
    const json_t *hashes = json_object_get(expected, "encode_hashes");
    const uint32_t end = UINT32_MAX;

    cr_assert_gt(json_array_size(hashes), 50);
    for (size_t batch = 0; batch < json_array_size(hashes); batch++) {
        uint64_t state = 1000 + batch;
        uint64_t hash = FNV_START;
        for (int i = 0; i < PER_BATCH; i++) {
            char text[TEXT_MAX];
            struct test_ids ids;
            size_t n_bytes = random_string(&state, json_object_get(strings, "fragments"), text);
            encode(tokenizer, text, n_bytes, batch % 3 == 1, batch % 3 != 2, &ids);
            hash = fnv(hash, ids.ids, ids.n_ids * sizeof *ids.ids);
            hash = fnv(hash, &end, sizeof end);
        }
        cr_expect_eq(hash, hash_of(hashes, batch), "%s, batch %zu", *name, batch);
    }
    json_decref(strings);
    json_decref(expected);
    tokenizer_destroy(tokenizer);
}

ParameterizedTestParameters(golden, random_ids_have_the_text_of_the_reference)
{
    return cr_make_param_array(char[16], (void *)NAMES, N_TOKENIZERS, NULL);
}

ParameterizedTest(char (*name)[16], golden, random_ids_have_the_text_of_the_reference)
{
    struct tokenizer *tokenizer = tokenizer_of(*name);
    json_t *expected = expected_of(*name);
    const json_t *hashes = json_object_get(expected, "decode_hashes");
    const uint8_t end = 0xff;

    for (size_t batch = 0; batch < json_array_size(hashes); batch++) {
        uint64_t state = 2000 + batch;
        uint64_t hash = FNV_START;
        for (int i = 0; i < PER_BATCH; i++) {
            uint32_t ids[20];
            char text[TEXT_MAX];
            struct decode_input input = {ids, below(&state, 20), batch % 2 == 1};
            struct text_buffer decoded = {.bytes = text, .bytes_max = sizeof text};
            for (size_t j = 0; j < input.n_ids; j++)
                ids[j] = (uint32_t)below(&state, tokenizer_n_ids(tokenizer));
            cr_assert_eq(tokenizer_decode(tokenizer, &input, &decoded, NULL), STATUS_OK);
            hash = fnv(hash, text, decoded.n_bytes);
            hash = fnv(hash, &end, sizeof end);
        }
        cr_expect_eq(hash, hash_of(hashes, batch), "%s, batch %zu", *name, batch);
    }
    json_decref(expected);
    tokenizer_destroy(tokenizer);
}
