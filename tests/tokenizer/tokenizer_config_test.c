/* tokenizer_config.json as Transformers writes it: what changes no text is read past. */
#include "tests/tokenizer/support/tokenizers.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Test(tokenizer_config, what_transformers_writes_by_default_loads)
{
    static const char *const CONFIGS[] = {
        "{\"model_max_length\": 1000000000000000019884624838656}",
        "{\"model_max_length\": 1e30}",
        "{\"additional_special_tokens\": [\"<s>\"], \"extra_special_tokens\": {\"a\": \"<s>\"}}",
        "{\"additional_special_tokens\": [], \"extra_special_tokens\": {}, \"cls_token\": \"<s>\"}",
        ("{\"additional_special_tokens\": null, \"mask_token\": \"\", \"image_token\": \"<t>\", "
         "\"extra_special_tokens\": [{\"content\": \"<s>\"}], \"vocab_size\": 1}"),
        "{\"model_max_length\": 4096.0, \"add_bos_token\": null, \"bos_token\": null}",
    };
    json_t *document = small_document();
    char *text = json_dumps(document, 0);
    for (size_t i = 0; i < sizeof CONFIGS / sizeof *CONFIGS; i++) {
        struct tokenizer *tokenizer = NULL;
        struct error error = {""};
        cr_expect_eq(load_texts(text, CONFIGS[i], &error, &tokenizer), STATUS_OK, "%s", error.text);
        tokenizer_destroy(tokenizer);
    }
    free(text);
    json_decref(document);
}

/* Some have the byte alphabet's letters alone: as tokens they are kept as bytes. */
Test(tokenizer_config, tokens_of_added_tokens_alone_are_found_by_their_text)
{
    static const char *const NAMES[] = {"<t>", "\xc4\xa0x", "\xc3\xa9\xc3\xa9", "\xe2\x96\x81"};
    json_t *document = small_document();
    json_t *decoder = json_object();
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        char number[8];
        int id = 259 + (int)i;
        snprintf(number, sizeof number, "%d", id);
        json_array_append_new(json_object_get(document, "added_tokens"),
                              json_pack("{s:i, s:s}", "id", id, "content", NAMES[i]));
        json_object_set_new(decoder, number, json_pack("{s:s}", "content", NAMES[i]));
    }
    char *text = json_dumps(document, 0);
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        json_t *root = json_pack("{s:O, s:s}", "added_tokens_decoder", decoder, "pad_token",
                                 NAMES[i]);
        char *config = json_dumps(root, 0);
        struct tokenizer *tokenizer = NULL;
        struct error error = {""};
        cr_assert_eq(load_texts(text, config, &error, &tokenizer), STATUS_OK, "%s", error.text);
        cr_expect_eq(tokenizer_special_ids(tokenizer).pad, 259 + i, "%s", NAMES[i]);
        tokenizer_destroy(tokenizer);
        free(config);
        json_decref(root);
    }
    free(text);
    json_decref(decoder);
    json_decref(document);
}

static struct tokenizer *load(const json_t *document, const char *config)
{
    char *text = json_dumps(document, 0);
    struct tokenizer *tokenizer = NULL;
    struct error error = {""};
    cr_assert_eq(load_texts(text, config, &error, &tokenizer), STATUS_OK, "%s: %s", config,
                 error.text);
    free(text);
    return tokenizer;
}

/* As version 4.57.6 of Transformers loads them; <s> is 258. */
Test(tokenizer_config, the_classes_that_put_a_template_there_do_what_the_switches_say)
{
    static const struct {
        const char *config;
        bool has_template; /* tokenizer.json's own adds <s> */
        uint32_t ids[3];
        size_t n_ids;
    } CASES[] = {
        {"\"LlamaTokenizerFast\", \"add_bos_token\": true", false, {258, 64}, 2},
        {"\"LlamaTokenizer\", \"add_bos_token\": false", true, {64}, 1},
        {"\"LlamaTokenizerFast\", \"add_eos_token\": true", false, {258, 64, 258}, 3},
        {"\"LlamaTokenizerFast\"", false, {64}, 1},
        {"\"GPTNeoXTokenizerFast\", \"add_eos_token\": true", false, {64, 258}, 2},
        {"\"LlamaTokenizerFaster\", \"add_bos_token\": true", false, {64}, 1},
        {"\"PreTrainedTokenizerFast\", \"add_bos_token\": true", false, {64}, 1},
        {"\"PreTrainedTokenizerFast\", \"add_bos_token\": false", true, {258, 64}, 2},
    };
    json_t *template = json_pack(
        "{s:s, s:[{s:{s:s, s:i}}, {s:{s:s, s:i}}], s:{s:{s:s, s:[i], s:[s]}}}", "type",
        "TemplateProcessing", "single", "SpecialToken", "id", "<s>", "type_id", 0, "Sequence", "id",
        "A", "type_id", 0, "special_tokens", "<s>", "id", "<s>", "ids", 258, "tokens", "<s>");
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        json_t *document = small_document();
        char config[200];
        struct test_ids ids;
        if (CASES[i].has_template)
            json_object_set(document, "post_processor", template);
        snprintf(config, sizeof config,
                 "{\"bos_token\": \"<s>\", \"eos_token\": \"<s>\", \"tokenizer_class\": %s}",
                 CASES[i].config);
        struct tokenizer *tokenizer = load(document, config);
        encode(tokenizer, "a", 1, true, true, &ids);
        cr_expect_eq(ids.n_ids, CASES[i].n_ids, "%s: %zu ids", config, ids.n_ids);
        for (size_t j = 0; j < CASES[i].n_ids && ids.n_ids == CASES[i].n_ids; j++)
            cr_expect_eq(ids.ids[j], CASES[i].ids[j], "%s: id %zu is %u", config, j, ids.ids[j]);
        tokenizer_destroy(tokenizer);
        json_decref(document);
    }
    json_decref(template);
}

/* Transformers adds them: a token of the vocabulary, and one that only the config has. */
Test(tokenizer_config, tokens_that_the_config_alone_has_are_added)
{
    static const char config[] =
        "{\"bos_token\": \"ab\", \"additional_special_tokens\": [{\"content\": \"abc\"}], "
        "\"added_tokens_decoder\": {\"258\": {\"content\": \"<s>\", \"special\": false}, "
        "\"259\": {\"content\": \"<t>\", \"special\": false}, "
        "\"260\": {\"content\": \"<u>\", \"special\": true, \"lstrip\": true}}}";
    json_t *document = small_document();
    char *text = json_dumps(document, 0);
    struct tokenizer *tokenizer = NULL;
    struct error error = {""};
    struct test_ids ids;
    static const uint32_t expected[] = {256, 259, 257, 260, 258};

    cr_assert_eq(load_texts(text, config, &error, &tokenizer), STATUS_OK, "%s", error.text);
    cr_expect_eq(tokenizer_n_ids(tokenizer), 261);
    cr_expect_eq(tokenizer_special_ids(tokenizer).bos, 256);
    encode(tokenizer, "ab<t>abc  <u><s>", 16, false, true, &ids);
    cr_assert_eq(ids.n_ids, sizeof expected / sizeof *expected);
    cr_expect_eq(memcmp(ids.ids, expected, sizeof expected), 0);
    static const bool special[] = {true, true, true, false, true};
    for (uint32_t id = 256; id < 261; id++)
        cr_expect_eq(tokenizer_is_special(tokenizer, id), special[id - 256], "%u", id);
    tokenizer_destroy(tokenizer);
    free(text);
    json_decref(document);
}
