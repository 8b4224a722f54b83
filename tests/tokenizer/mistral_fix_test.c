/* mistral_fix: the pattern changes where Transformers 5.23 changes it, and nowhere else. */
#include "tests/tokenizer/support/tokenizers.h"
#include "tokenizer/files/mistral_fix.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* Of n_ids tokens, split after each letter: "ab" is two tokens, and one (256) with the right pattern. */
static json_t *document_of(int n_ids, bool is_sequence)
{
    json_t *document = small_document();
    json_t *vocab = json_object_get(json_object_get(document, "model"), "vocab");
    json_t *added = json_object_get(document, "added_tokens");
    json_t *split = json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", "Regex",
                              "\\p{L}", "behavior", "Isolated", "invert", 0);
    json_t *bytes = json_pack("{s:s, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0,
                              "use_regex", 0);
    char name[16];
    for (int id = (int)(json_object_size(vocab) + json_array_size(added)); id < n_ids; id++) {
        snprintf(name, sizeof name, "~%d", id);
        json_object_set_new(vocab, name, json_integer(id));
    }
    if (is_sequence)
        json_object_set_new(
            document, "pre_tokenizer",
            json_pack("{s:s, s:[o, o]}", "type", "Sequence", "pretokenizers", split, bytes));
    else
        json_object_set_new(document, "pre_tokenizer", bytes);
    if (!is_sequence)
        json_decref(split);
    return document;
}

static json_t *parsed(const char *text)
{
    json_t *root = text ? json_loads(text, 0, NULL) : NULL;
    cr_assert(!text || root, "%s", text);
    return root;
}

static void expect_ids(const json_t *document, const char *name, const char *text,
                       const uint32_t *expected, size_t n)
{
    struct tokenizer *tokenizer;
    struct error error = {""};
    struct test_ids ids;
    cr_assert_eq(load_document(document, &error, &tokenizer), STATUS_OK, "%s", error.text);
    encode(tokenizer, text, strlen(text), false, true, &ids);
    cr_expect_eq(ids.n_ids, n, "%s: %zu ids", name, ids.n_ids);
    for (size_t i = 0; i < n && ids.n_ids == n; i++)
        cr_expect_eq(ids.ids[i], expected[i], "%s: id %zu is %u", name, i, ids.ids[i]);
    tokenizer_destroy(tokenizer);
}

Test(mistral_fix, comes_where_transformers_has_it)
{
    static const char FIX[] = "{\"fix_mistral_regex\": true}";
    static const struct {
        const char *name, *config, *model_config;
        int n_ids;
        bool is_fixed;
    } CASES[] = {
        {"old", FIX, "{\"model_type\": \"mistral\", \"transformers_version\": \"4.57.1\"}", 100001,
         true},
        {"no version", FIX, "{\"model_type\": \"mistral3\"}", 100001, true},
        {"no model", FIX, "{}", 100001, true},
        {"another model", FIX, "{\"model_type\": \"llama\"}", 100001, false},
        {"new", FIX, "{\"model_type\": \"mistral\", \"transformers_version\": \"5.0.0\"}", 100001,
         false},
        {"no config.json", FIX, NULL, 100001, false},
        {"small", FIX, "{\"model_type\": \"mistral\"}", 100000, false},
        {"not asked for", "{\"fix_mistral_regex\": false}", "{\"model_type\": \"mistral\"}", 100001,
         false},
        {"not said", "{}", "{\"model_type\": \"mistral\"}", 100001, false},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        json_t *document = document_of(CASES[i].n_ids, true);
        json_t *config = parsed(CASES[i].config), *model = parsed(CASES[i].model_config);
        cr_assert_eq(mistral_fix_apply(document, config, model), STATUS_OK);
        if (CASES[i].is_fixed)
            expect_ids(document, CASES[i].name, "ab", (uint32_t[]){256}, 1);
        else
            expect_ids(document, CASES[i].name, "ab", (uint32_t[]){64, 65}, 2);
        json_decref(document);
        json_decref(config);
        json_decref(model);
    }
}

Test(mistral_fix, goes_before_what_is_no_sequence)
{
    json_t *document = document_of(100001, false);
    json_t *config = parsed("{\"fix_mistral_regex\": true}");
    json_t *model = parsed("{\"model_type\": \"mistral\"}");
    expect_ids(document, "before", "aBab", (uint32_t[]){64, 33, 256}, 3);
    cr_assert_eq(mistral_fix_apply(document, config, model), STATUS_OK);
    const json_t *members = json_object_get(json_object_get(document, "pre_tokenizer"),
                                            "pretokenizers");
    cr_assert_eq(json_array_size(members), 2);
    expect_ids(document, "after", "ab1ab", (uint32_t[]){256, 16, 256}, 3);
    json_decref(document);
    json_decref(config);
    json_decref(model);
}
